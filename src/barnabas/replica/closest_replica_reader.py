"""The fetch path of a broker with `replica.selector.class`: its leaders send consumers to followers (KIP-392).

Takes the place of ReplicaReader in ReplicaManager, on the same threads, without a lock. A subclass, so that brokers
without the setting pay nothing. Kafka: ReplicaManager.fetchMessages, readFromLog.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.replica.broker_topic_stats import BrokerTopicStats
from barnabas.replica.isr_updates import IsrUpdates
from barnabas.replica.partition import Partition
from barnabas.replica.partition_fetch import ConsumerPlace, FetchTerms, PartitionFetch
from barnabas.replica.read import ReplicaReader
from barnabas.replica.replica_selector import LEADER, ReplicaSelector
from barnabas.replica.replication_throttle import ReplicationThrottle
from barnabas.replica.waiting_requests import WaitingRequests


class ClosestReplicaReader(ReplicaReader):
    """A reader that names the follower closest to a consumer, and then reads nothing of that partition."""

    def __init__(
        self,
        partition_or_error: Callable[[str, int], Partition],
        waiting: WaitingRequests,
        isr_updates: IsrUpdates,
        stats: BrokerTopicStats,
        throttle: ReplicationThrottle,
        selector: ReplicaSelector,
    ) -> None:
        super().__init__(partition_or_error, waiting, isr_updates, stats, throttle)
        self._selector = selector

    def _is_decided(self, fetches: Sequence[PartitionFetch]) -> bool:
        for fetch in fetches:
            if fetch.preferred_read_replica != LEADER:
                return True
        return super()._is_decided(fetches)

    def _read_partition(
        self, terms: FetchTerms, fetch: PartitionFetch, max_bytes: int, *, min_one_message: bool
    ) -> int:
        place = terms.place
        if place is not None and self._is_sent_to_follower(fetch, place):
            return 0
        return super()._read_partition(terms, fetch, max_bytes, min_one_message=min_one_message)

    def _is_sent_to_follower(self, fetch: PartitionFetch, place: ConsumerPlace) -> bool:
        """Name the follower to read from, if there is a closer one. What cannot be read is left to the read itself."""
        try:
            partition = self._partition_or_error(fetch.topic, fetch.partition)
            state = partition.check_leader_epoch(fetch.current_leader_epoch)
        except ApiError:
            return False
        if fetch.topic_id and partition.topic_id != fetch.topic_id:
            return False
        replica_id = self._selector.select(state, fetch.fetch_offset, place)
        if replica_id == LEADER:
            return False
        bounds = partition.log.bounds
        fetch.error = ErrorCode.NONE
        fetch.log_start_offset = bounds.start
        fetch.high_watermark = bounds.high_watermark.message_offset
        fetch.last_stable_offset = bounds.last_stable.message_offset
        fetch.preferred_read_replica = replica_id
        return True
