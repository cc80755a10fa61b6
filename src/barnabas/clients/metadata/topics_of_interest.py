"""The topics whose metadata a client keeps: named one by one, or chosen by a filter. Pure; times are passed in.

Owned by `ClusterMetadata`, whose condition guards it. Kafka: ProducerMetadata, ConsumerMetadata.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TypeAlias

from barnabas.protocol.messages.metadata import MetadataResponse

TopicFilter: TypeAlias = Callable[[MetadataResponse.MetadataResponseTopic], bool]
"""A function of a topic in an answer of the cluster. Returns whether the topic is followed."""


class TopicsOfInterest:
    """The topics, with the time of their last use. An unused topic is dropped after `idle_ms` (None: never)."""

    def __init__(self, idle_ms: int | None) -> None:
        self.filter: TopicFilter | None = None
        """The choice among all topics of the cluster, for a consumer's pattern."""
        self.new: set[str] = set()
        """Topics that no answer has described yet."""
        self._idle_ms = idle_ms
        self._used_ms: dict[str, int] = {}
        """Each topic, with the time of its last use."""

    def use(self, topic: str, now_ms: int) -> bool:
        """Note that a topic is used. Returns whether the topic is new."""
        is_new = topic not in self._used_ms
        if is_new:
            self.new.add(topic)
        self._used_ms[topic] = now_ms
        return is_new

    def replace(
        self, topics: Iterable[str], known: Collection[str], now_ms: int, topic_filter: TopicFilter | None
    ) -> bool:
        """Follow exactly these topics, and all that the filter lets pass. Returns whether some of them are new."""
        wanted = dict.fromkeys(topics, now_ms)
        new = wanted.keys() - self._used_ms.keys()
        # Topics that the filter has found are described already.
        if topic_filter is not None and topic_filter == self.filter:
            new = new - set(known)
        self._used_ms = wanted
        self.new = (self.new & wanted.keys()) | new
        self.filter = topic_filter
        return bool(new)

    def drop_idle(self, now_ms: int) -> list[str]:
        """Forget topics that have not been used for `idle_ms`, and return the others."""
        if self._idle_ms is not None:
            for topic in [name for name, used_ms in self._used_ms.items() if now_ms - used_ms >= self._idle_ms]:
                # A caller still waits for the description of a new topic, however long that takes.
                if topic not in self.new:
                    del self._used_ms[topic]
        return list(self._used_ms)

    def is_followed(self, topic: MetadataResponse.MetadataResponseTopic) -> bool:
        """Return whether the view should include a topic of an answer."""
        return topic.name in self._used_ms or (self.filter is not None and self.filter(topic))
