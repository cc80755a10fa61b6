"""Finds the topics that the regular expressions of consumer groups match, off the path of requests (KIP-848).

Made by `broker/`; asked by the consumer group service, holding a group's lock or not; works on a scheduler's thread and
tells the outcome there, holding nothing. At most one resolution a group is under way. `_lock` guards which.
Kafka: org.apache.kafka.coordinator.group.modern.consumer.TopicRegexResolver, and its executor.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection
from collections.abc import Set as AbstractSet

from barnabas.coordinator.group.consumer.topics.subscribed import ResolvedRegularExpression
from barnabas.metadata.metadata_image import MetadataImage
from barnabas.runtime.clock import Clock
from barnabas.runtime.scheduler import Scheduler

logger = logging.getLogger(__name__)

Describable = Callable[[Collection[str]], AbstractSet[str]]
"""Those of some topics that the member who asked may describe: others do not exist for him."""


class TopicRegexResolver:
    """See the module. image: the metadata of now."""

    def __init__(self, clock: Clock, scheduler: Scheduler, image: Callable[[], MetadataImage]) -> None:
        self._clock = clock
        self._scheduler = scheduler
        self._image = image
        self._lock = threading.Lock()
        self._resolving: set[str] = set()

    def is_resolving(self, group_id: str) -> bool:
        """Whether a resolution of the group's expressions is under way."""
        with self._lock:
            return group_id in self._resolving

    def resolve(
        self,
        group_id: str,
        regexes: Collection[str],
        may_describe: Describable,
        on_resolved: Callable[[dict[str, ResolvedRegularExpression]], None],
    ) -> bool:
        """Find what they match, and tell. False: that is under way already, and nothing is done."""
        with self._lock:
            if group_id in self._resolving:
                return False
            self._resolving.add(group_id)
        wanted = tuple(regexes)
        self._scheduler.schedule("resolve-regexes", lambda: self._run(group_id, wanted, may_describe, on_resolved))
        return True

    def _run(
        self,
        group_id: str,
        regexes: tuple[str, ...],
        may_describe: Describable,
        on_resolved: Callable[[dict[str, ResolvedRegularExpression]], None],
    ) -> None:
        try:
            resolved = self._resolve(group_id, regexes, may_describe)
        except ImportError as error:
            # A broker that had it took these in; they keep matching what they matched.
            logger.error("[GroupId %s] Couldn't update regular expressions: %s", group_id, error)  # noqa: TRY400
            return
        finally:
            # Before it is told: whoever hears of it may find that he has to ask again.
            with self._lock:
                self._resolving.discard(group_id)
        on_resolved(resolved)

    def _resolve(
        self, group_id: str, regexes: tuple[str, ...], may_describe: Describable
    ) -> dict[str, ResolvedRegularExpression]:
        from barnabas.coordinator.group.consumer.topics.regex import matching_topics  # noqa: PLC0415 - loads google-re2

        started_ms = self._clock.milliseconds()
        image = self._image()
        matched = matching_topics(regexes, image.topics)
        visible = may_describe(set().union(*matched.values()))
        logger.info(
            "[GroupId %s] Scanned %d topics to refresh regular expressions %s in %dms.",
            group_id,
            len(image.topics),
            regexes,
            self._clock.milliseconds() - started_ms,
        )
        return {
            regex: ResolvedRegularExpression(frozenset(topics & visible), image.version, started_ms)
            for regex, topics in matched.items()
        }
