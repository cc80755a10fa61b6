"""The search for the topics that the expressions of consumer groups match, off the path of requests (KIP-848).

Made by `broker/`. Called by the consumer group service, with or without a group's lock. A resolution runs on a
scheduler thread, and reports there without a lock. A group has at most one resolution at a time; `_lock` guards the set
of those groups. Kafka: org.apache.kafka.coordinator.group.modern.consumer.TopicRegexResolver, and its executor.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection
from collections.abc import Set as AbstractSet

from barnabas.coordinator.group.consumer.topics.group_topics import ResolvedRegularExpression
from barnabas.metadata.metadata_image import MetadataImage
from barnabas.runtime.clock import Clock
from barnabas.runtime.scheduler import Scheduler

logger = logging.getLogger(__name__)

Describable = Callable[[Collection[str]], AbstractSet[str]]
"""Returns those topics that the member's principal may describe. Other topics do not exist for the member."""


class TopicRegexResolver:
    """The resolver of all groups' regular expressions. image: returns the present metadata image."""

    def __init__(self, clock: Clock, scheduler: Scheduler, image: Callable[[], MetadataImage]) -> None:
        self._clock = clock
        self._scheduler = scheduler
        self._image = image
        self._lock = threading.Lock()
        self._resolving: set[str] = set()

    def is_resolving(self, group_id: str) -> bool:
        """Return whether a resolution of the group's expressions is under way."""
        with self._lock:
            return group_id in self._resolving

    def resolve(
        self,
        group_id: str,
        regexes: Collection[str],
        may_describe: Describable,
        on_resolved: Callable[[dict[str, ResolvedRegularExpression]], None],
    ) -> bool:
        """Find the topics that the expressions match, and report them.

        Return False, and do nothing, if a resolution for the group is under way.
        """
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
            # A broker with the re2 package accepted these expressions; they keep the topics that they matched there.
            logger.error("[GroupId %s] Couldn't update regular expressions: %s", group_id, error)  # noqa: TRY400
            return
        finally:
            # Before the report: the service may ask for another resolution when it gets the result.
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
