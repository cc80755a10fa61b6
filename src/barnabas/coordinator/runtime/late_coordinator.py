"""A coordinator that its broker imports and builds when it first needs it.

Many brokers never have a group or a transactional id, and the first need of one costs less than a start that prepares
for both: 47 modules. Needed is a coordinator for the first request that reaches it, when this broker first leads or
loses a partition of its topic (a restarted broker loads the groups and ids of before), and for what reads its metrics.

Made by `broker.stages.replication_stage` and `broker.stages.transaction_stage`; called on any thread, with no lock
held. `_lock` is held while the coordinator is built, started and stopped: it is built once, and started unless the
broker stops.
"""

from __future__ import annotations

import enum
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from barnabas.replica.leadership_orders import LeadershipChange
from barnabas.runtime.lazy import Lazy

if TYPE_CHECKING:
    from barnabas.coordinator.runtime.coordinator_loader import CoordinatorLoader
    from barnabas.coordinator.runtime.partitions import CoordinatorPartitions
    from barnabas.metadata.metadata_cache import MetadataCache


class Coordinator(Protocol):
    """What a group coordinator and a transaction coordinator have in common."""

    @property
    def loader(self) -> CoordinatorLoader:
        """The loading of what the partitions of its topic hold."""

    def startup(self) -> None:
        """Serve what this broker coordinates."""

    def shutdown(self) -> None:
        """Stop serving."""


C = TypeVar("C", bound=Coordinator)


class _Phase(enum.Enum):
    """Whether the broker serves requests."""

    STARTING = "starting"
    SERVING = "serving"
    STOPPED = "stopped"


class LateCoordinator(Generic[C]):
    """A callable that returns the coordinator.

    topic: of the coordinator's records. count: of its partitions, while the topic is missing. build: imports the
    coordinator, and must not call this object.
    """

    def __init__(
        self, topic: str, metadata: MetadataCache, count: int, build: Callable[[CoordinatorPartitions], C]
    ) -> None:
        def new_partitions() -> CoordinatorPartitions:
            from barnabas.coordinator.runtime.partitions import CoordinatorPartitions  # noqa: PLC0415

            return CoordinatorPartitions(topic, metadata, count)

        self._topic = topic
        # They name coordinators, also before the coordinator is built.
        self._partitions = Lazy(new_partitions)
        self._build = build
        self._lock = threading.Lock()
        self._phase = _Phase.STARTING
        self._built: C | None = None

    @property
    def partitions(self) -> CoordinatorPartitions:
        """The partitions of the topic: they name coordinators."""
        return self._partitions()

    @property
    def built(self) -> C | None:
        """The coordinator, or None while it is not needed."""
        return self._built

    def __call__(self) -> C:
        """Return the coordinator. Raises what its import and its construction raise; the next call tries again."""
        built = self._built
        if built is not None:
            return built
        with self._lock:
            # Tested again: another thread may have built it while this one waited for the lock.
            if self._built is None:
                coordinator = self._build(self._partitions())
                if self._phase is _Phase.SERVING:
                    coordinator.startup()
                self._built = coordinator
            return self._built

    def leadership_changed(self, changes: Sequence[LeadershipChange]) -> None:
        """Tell the coordinator's loader, and build the coordinator for a change of its topic."""
        topic = self._topic
        if self._built is not None or any(change.topic_partition.topic == topic for change in changes):
            self().loader.leadership_changed(changes)

    def startup(self) -> None:
        """Serve from now on. Until then clients get COORDINATOR_NOT_AVAILABLE."""
        with self._lock:
            self._phase = _Phase.SERVING
            if self._built is not None:
                self._built.startup()

    def shutdown(self) -> None:
        """Stop serving. A coordinator that is built later is not started."""
        with self._lock:
            self._phase = _Phase.STOPPED
            if self._built is not None:
                self._built.shutdown()
