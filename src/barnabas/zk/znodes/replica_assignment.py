"""The brokers that hold a partition: the value of a topic's znode, and the controller's view of a reassignment.

Used by zk, metadata and controller on any thread; immutable, so no lock. Kafka: kafka.controller.ReplicaAssignment.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple


def _without(replicas: Iterable[int], others: Iterable[int]) -> tuple[int, ...]:
    unwanted = set(others)
    return tuple(replica for replica in replicas if replica not in unwanted)


class ReplicaAssignment(NamedTuple):
    """Broker ids, the preferred leader first. `replicas` includes those being added and those being removed."""

    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()

    @property
    def origin_replicas(self) -> tuple[int, ...]:
        """The replicas before the reassignment."""
        return _without(self.replicas, self.adding_replicas)

    @property
    def target_replicas(self) -> tuple[int, ...]:
        """The replicas after the reassignment."""
        return _without(self.replicas, self.removing_replicas)

    @property
    def is_being_reassigned(self) -> bool:
        """Whether replicas are being added or removed."""
        return bool(self.adding_replicas or self.removing_replicas)

    def reassign_to(self, target: Sequence[int]) -> ReplicaAssignment:
        """Return the assignment while this one moves to `target`. A reassignment in progress is replaced."""
        replicas = tuple(dict.fromkeys((*target, *self.origin_replicas)))
        return ReplicaAssignment(replicas, _without(replicas, self.origin_replicas), _without(replicas, target))

    def remove_replica(self, replica: int) -> ReplicaAssignment:
        """Return the assignment without `replica`."""
        return ReplicaAssignment(
            _without(self.replicas, (replica,)),
            _without(self.adding_replicas, (replica,)),
            _without(self.removing_replicas, (replica,)),
        )


NO_ASSIGNMENT = ReplicaAssignment(())
