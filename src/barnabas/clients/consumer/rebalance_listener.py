"""What a consumer in a group hears when its partitions change (Kafka: ConsumerRebalanceListener).

Called on the consumer's thread, inside `poll`, `unsubscribe` and `close`; the consumer may be used.
"""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.protocol.topic_partition import TopicPartition


class RebalanceListener:
    """Override what is of interest. Partitions come sorted; eager assignors take all before they give any."""

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """These are new. Called after every rebalance, with none if nothing came; positions may be sought here."""

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """These go to others: the last occasion to commit their offsets."""

    def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        """These may have new owners already, for this member had been given up: offsets cannot be committed.

        Unless overridden, as if they were revoked.
        """
        self.on_partitions_revoked(partitions)
