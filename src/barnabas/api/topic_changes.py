"""The topic purgatory: requests wait here for a topic to appear or to disappear.

Late: made by `broker` for the first handler that calls it; the purgatory is there before. Woken by the metadata cache
through `metadata_changed`, which `broker` subscribes. Completions run on whichever thread changed the metadata (the
controller's channel) or on the expiration executor; no lock is held there.

Kafka: DelayedCreatePartitions, DelayedDeleteTopics, ZkAdminManager's topicPurgatory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.metadata.metadata_image import MetadataImage, TopicMetadata
from barnabas.purgatory.delayed_operation import DelayedOperation
from barnabas.purgatory.purgatory import DelayedOperationPurgatory

Answer = Callable[[frozenset[str]], None]


def has_all_leaders(topic: TopicMetadata | None, count: int = 1) -> bool:
    """Return whether a topic has at least `count` partitions, and each of them a leader."""
    if topic is None or len(topic.partitions) < count:
        return False
    return all(partition.leader >= 0 for partition in topic.partitions)


class DelayedTopicChange(DelayedOperation):
    """Completes when none of the topics is unfinished (case A); on time-out it answers with the unfinished ones."""

    __slots__ = ("_answer", "_finished", "_is_unfinished", "_names")

    def __init__(
        self, timeout_ms: int, names: frozenset[str], is_unfinished: Callable[[str], bool], answer: Answer
    ) -> None:
        super().__init__(timeout_ms)
        self._names = tuple(names)
        self._is_unfinished = is_unfinished
        self._answer = answer
        self._finished = 0
        """How many of the first names were found finished."""

    def try_complete(self) -> bool:
        """Complete the request if every topic has been changed (case A)."""
        # Each look goes on where the last one ended: all topics are looked at once, not once for each of them. A topic
        # that was finished may be unfinished again, so in the end all are looked at together.
        finished = self._finished
        if self._are_finished_from(finished) and (not finished or self._are_finished_from(0)):
            return self.force_complete()
        return False

    def _are_finished_from(self, first: int) -> bool:
        """Return whether the topics from number `first` on are finished, and note the first one that is not."""
        for index in range(first, len(self._names)):
            if self._is_unfinished(self._names[index]):
                self._finished = index
                return False
        self._finished = len(self._names)
        return True

    def on_complete(self) -> None:
        """Answer with the topics that are unfinished now: none, unless the operation timed out."""
        self._answer(frozenset(filter(self._is_unfinished, self._names)))


class TopicChanges:
    """Lets requests wait until this broker's metadata shows the change they asked for. purgatory: where they wait."""

    def __init__(self, metadata: MetadataCache, purgatory: DelayedOperationPurgatory[DelayedTopicChange]) -> None:
        self._metadata = metadata
        self._purgatory = purgatory

    def when_leaders_elected(self, names: frozenset[str], timeout_ms: int, answer: Answer) -> None:
        """Call `answer(topics without a leader)` when all of `names` have one, or after `timeout_ms`."""
        self._wait(names, timeout_ms, lambda image, name: not has_all_leaders(image.topics.get(name)), answer)

    def when_partitions_added(self, counts: Mapping[str, int], timeout_ms: int, answer: Answer) -> None:
        """Call `answer(unfinished topics)` when each has its count of partitions with leaders, or after `timeout_ms`.

        With a time-out of 0 that is at once.
        """
        self._wait(
            frozenset(counts),
            timeout_ms,
            lambda image, name: not has_all_leaders(image.topics.get(name), counts[name]),
            answer,
        )

    def when_deleted(self, names: frozenset[str], timeout_ms: int, answer: Answer) -> None:
        """Call `answer(topics still there)` when none of `names` is, or after `timeout_ms`."""
        self._wait(names, timeout_ms, lambda image, name: name in image.topics, answer)

    def metadata_changed(self, old: MetadataImage, new: MetadataImage) -> None:
        """Retry the requests that wait for topics that differ between the images."""
        # By the keys watched: they are few, the topics of a cluster may be very many.
        for name in self._purgatory.watched_keys():
            # Images share the topics that did not change, so identity tells which ones did.
            if old.topics.get(str(name)) is not new.topics.get(str(name)):
                self._purgatory.check_and_complete(name)

    def _wait(
        self,
        names: frozenset[str],
        timeout_ms: int,
        is_unfinished: Callable[[MetadataImage, str], bool],
        answer: Answer,
    ) -> None:
        def is_still_unfinished(name: str) -> bool:
            return is_unfinished(self._metadata.image, name)

        change = DelayedTopicChange(timeout_ms, names, is_still_unfinished, answer)
        if timeout_ms <= 0:
            change.on_complete()
        else:
            self._purgatory.try_complete_else_watch(change, names)
