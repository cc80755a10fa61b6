"""The fetch path of a broker with `replica.selector.class`: its leaders send consumers to followers (KIP-392).

ClosestReplicaReader takes the place of ReplicaReader in ReplicaManager, on the same handler and processor threads. It
asks a RackAwareReplicaSelector, which reads immutable values only: neither takes a lock. The reader is a subclass, so
that brokers without the setting pay nothing.

Kafka: ReplicaManager.fetchMessages, ReplicaManager.findPreferredReadReplica, RackAwareReplicaSelector.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from barnabas.metadata.metadata_image import MetadataImage
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.replica.broker_topic_stats import BrokerTopicStats
from barnabas.replica.isr.isr_updates import IsrUpdates
from barnabas.replica.partitions.follower_state import Follower
from barnabas.replica.partitions.hosted_partitions import HostedPartitions
from barnabas.replica.partitions.leader_state import LeaderState
from barnabas.replica.partitions.partition_fetch import ConsumerPlace, FetchTerms, PartitionFetch
from barnabas.replica.requests.replica_reader import ReplicaReader
from barnabas.replica.requests.replication_throttle import ReplicationThrottle
from barnabas.replica.requests.waiting_requests import WaitingRequests

if TYPE_CHECKING:
    from mypy_extensions import i64

RACK_AWARE: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
"""The only value of `replica.selector.class` besides none."""
LEADER: Final = -1


class RackAwareReplicaSelector:
    """The replica in the consumer's rack: the leader if it is there, else the follower with most records.

    image: returns the cluster's metadata.
    """

    def __init__(self, broker_id: int, image: Callable[[], MetadataImage]) -> None:
        self._broker_id = broker_id
        self._image = image

    def select(self, state: LeaderState, fetch_offset: int, place: ConsumerPlace) -> int:
        """Return the id of the follower to read from, or LEADER.

        Followers out of sync, and those without the fetch offset, are left out: a consumer of theirs would fall behind
        or be sent back at once. So are those that the consumer cannot reach through its listener.
        """
        brokers = self._image().brokers

        def is_near(broker_id: int) -> bool:
            broker = brokers.get(broker_id)
            return broker is not None and broker.rack == place.rack_id and place.listener_name in broker.endpoints

        if is_near(self._broker_id):
            return LEADER
        near = [
            follower
            for follower in state.followers.values()
            if follower.broker_id in state.isr and _has_offset(follower, fetch_offset) and is_near(follower.broker_id)
        ]
        return max(near, key=_progress).broker_id if near else LEADER


def _has_offset(follower: Follower, offset: int) -> bool:
    known = follower.state
    return known.log_start_offset <= offset <= known.log_end.message_offset


def _progress(follower: Follower) -> tuple[int, int, int]:
    """Return what Kafka's ReplicaView compares: the log end, then how recently it was caught up, then the id."""
    known = follower.state
    return known.log_end.message_offset, follower.state_by_now.last_caught_up_ms, follower.broker_id


def replica_selector(class_name: str, broker_id: int, image: Callable[[], MetadataImage]) -> RackAwareReplicaSelector:
    """Return the selector that `replica.selector.class` names.

    Raises ValueError: for another class, which the table of settings does not accept.
    """
    if class_name != RACK_AWARE:
        raise ValueError(f"no replica selector {class_name}")
    return RackAwareReplicaSelector(broker_id, image)


class ClosestReplicaReader(ReplicaReader):
    """A reader that names the follower closest to a consumer, and then reads nothing of that partition."""

    def __init__(
        self,
        hosted: HostedPartitions,
        waiting: WaitingRequests,
        isr_updates: IsrUpdates,
        stats: BrokerTopicStats,
        throttle: ReplicationThrottle,
        selector: RackAwareReplicaSelector,
    ) -> None:
        super().__init__(hosted, waiting, isr_updates, stats, throttle)
        self._selector = selector

    def _is_decided(self, fetches: list[PartitionFetch]) -> bool:
        for fetch in fetches:
            if fetch.preferred_read_replica != LEADER:
                return True
        return super()._is_decided(fetches)

    def _read_partition(
        self, terms: FetchTerms, fetch: PartitionFetch, max_bytes: i64, *, min_one_message: bool
    ) -> i64:
        place = terms.place
        if place is not None and self._is_sent_to_follower(fetch, place):
            return 0
        return super()._read_partition(terms, fetch, max_bytes, min_one_message=min_one_message)

    def _is_sent_to_follower(self, fetch: PartitionFetch, place: ConsumerPlace) -> bool:
        """Name the follower to read from, if there is a closer one. What cannot be read is left to the read itself."""
        try:
            partition = self.hosted.partition_or_error(fetch.topic, fetch.partition)
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
