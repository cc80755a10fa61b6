"""The user's callbacks for changes of a consumer's partitions.

Called on the consumer's thread, inside `poll`, `unsubscribe` and `close`; the consumer may be used.
Kafka: ConsumerRebalanceListener.
"""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.protocol.topic_partition import TopicPartition


class RebalanceListener:
    """The base of listeners, which override the methods of interest. Each call gets sorted partitions.

    With an eager assignor, all partitions are revoked before any is assigned.
    """

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """Take note of new partitions, and seek in them if needed. Called after every rebalance, even with none."""

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """Commit the offsets of partitions that go to other members: this is the last occasion."""

    def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        """Drop work on partitions that may have new owners already: their offsets can no longer be committed.

        By default, lost partitions are handled like revoked ones.
        """
        self.on_partitions_revoked(partitions)
