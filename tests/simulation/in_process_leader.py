"""A simulated follower's way to its leader: a call, unless the link is cut or one of the two has died since.

`InProcessLeader` calls the leader's reader. `LeaderInSession` sends what RemoteLeader would send, in a fetch session,
to the leader's Fetch handler, from frame to frame: partitions at their ends are left out, sessions are lost with a
broker, an answer that is lost ends the session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.api.apis import Apis
from barnabas.api.handlers.fetch import FetchApi
from barnabas.api.registry import Registry
from barnabas.api.request_parser import RequestParser
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.headers import encode_request_header
from barnabas.protocol.messages.fetch import FetchResponse
from barnabas.protocol.messages.message import Message
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.file_records import FileRecords
from barnabas.replica.fetcher.leader_end_point import FETCH_VERSION, FetchedPartitions
from barnabas.replica.partitions.partition_fetch import FetchTerms, PartitionFetch
from barnabas.rpc.fetch_request import FetchingReplica, FetchLimits
from barnabas.rpc.fetch_session_handler import FetchSessionHandler, WantedPositions
from barnabas.rpc.peer_connection import ConnectionLost
from barnabas.storage.fetch_data import FetchIsolation
from barnabas.storage.log.unified_log import UnifiedLog
from tests.support.broker_origins import broker_origin
from tests.support.fetch_sessions import fetch_sessions
from tests.support.recording_channel import RecordingChannel, connection
from tests.unit.replica.replica_harness import Replicas

if TYPE_CHECKING:
    from tests.simulation.replicated_partition import ReplicatedPartition

MAX_BYTES = (1, 300, 1 << 20)


class InProcessLeader:
    """A leader whose log is read by a call."""

    def __init__(self, cluster: ReplicatedPartition, follower: int, leader: int) -> None:
        self._cluster = cluster
        self._follower = follower
        self._leader = leader

    def fetch(self, positions: WantedPositions) -> FetchedPartitions:
        leader = self._reach()
        fetches = [
            PartitionFetch(
                each.topic_partition.topic,
                each.topic_partition.partition,
                each.offset,
                self._cluster.chance.choice(MAX_BYTES),
                topic_id=each.topic_id,
                current_leader_epoch=each.leader_epoch,
                last_fetched_epoch=each.last_fetched_epoch,
                log_start_offset_of_follower=each.log_start_offset,
            )
            for each in positions
        ]
        answered: list[PartitionFetch] = []
        epoch = self._cluster.epochs[self._follower]
        terms = FetchTerms(0, 1, 1 << 20, FetchIsolation.LOG_END, replica_id=self._follower, replica_epoch=epoch)
        leader.manager.reader.fetch_records(terms, fetches, answered.extend)
        leader.actions.run_all()
        answers = {TopicPartition(each.topic, each.partition): _data(each) for each in answered}
        self._may_lose_answer()
        return answers

    def earliest_offset(self, partition: TopicPartition, leader_epoch: int) -> int:
        return self._log(partition, leader_epoch).log_start_offset

    def latest_offset(self, partition: TopicPartition, leader_epoch: int) -> int:
        return self._log(partition, leader_epoch).log_end_offset

    def initiate_close(self) -> None:
        pass

    def close(self) -> None:
        pass

    def _log(self, partition: TopicPartition, leader_epoch: int) -> UnifiedLog:
        hosted = self._reach().manager.hosted.partition_or_error(partition.topic, partition.partition)
        hosted.check_leader_epoch(leader_epoch)
        return hosted.log

    def _reach(self) -> Replicas:
        cluster = self._cluster
        node = cluster.nodes.get(self._leader)
        if node is None or frozenset((self._follower, self._leader)) in cluster.cut:
            raise ConnectionLost(f"{self._follower} cannot reach {self._leader}")
        return node

    def _may_lose_answer(self) -> None:
        if self._cluster.chance.random() < self._cluster.loss:
            raise ConnectionLost("the answer was lost")


class LeaderInSession(InProcessLeader):
    """A leader that is asked in a fetch session."""

    def __init__(self, cluster: ReplicatedPartition, follower: int, leader: int) -> None:
        super().__init__(cluster, follower, leader)
        self._session = FetchSessionHandler(leader)

    def fetch(self, positions: WantedPositions) -> FetchedPartitions:
        cluster, session = self._cluster, self._session
        data = session.build_changes(positions)
        replica = FetchingReplica(self._follower, cluster.epochs[self._follower])
        limits = FetchLimits(0, 1, cluster.chance.choice(MAX_BYTES), replica=replica)
        request = data.builder(limits, FETCH_VERSION).build(FETCH_VERSION)
        try:
            self._reach()
            response = cluster.fetch_handlers[self._leader].answer(request)
            self._may_lose_answer()
        except ConnectionLost:
            session.handle_error()
            raise
        partitions = session.partitions_of(response, FETCH_VERSION)
        if not session.handle_response(response, FETCH_VERSION, partitions.keys()):
            return {}
        cluster.done["left out"] += len(positions) - sum(len(topic.partitions) for topic in response.responses)
        return partitions


class FetchHandler:
    """The Fetch handler of one broker, with the sessions that it loses when it dies."""

    def __init__(self, replicas: Replicas) -> None:
        sessions = fetch_sessions(replicas.clock, watches=replicas.manager.waiting.sessions)
        api = FetchApi(replicas.manager, replicas.metadata, sessions, 1 << 20, replicas.clock, None, broker_origin())
        self._parser = RequestParser(Registry(api.handlers()))
        self._apis = Apis(replicas.actions, lambda: 1)

    def answer(self, request: Message) -> FetchResponse:
        header = encode_request_header(ApiKey.FETCH, FETCH_VERSION, 1, "follower")
        frame = header + b"".join(map(bytes, request.encode(FETCH_VERSION)))
        channel = RecordingChannel()
        self._apis.handle(self._parser.parse(frame, connection(), channel=channel, received_ns=1))
        answer: FetchResponse = channel.answer()
        return answer


def _data(fetch: PartitionFetch) -> FetchResponse.PartitionData:
    records = fetch.records
    if isinstance(records, FileRecords):
        data = bytes(records.read())
        records.release()
        records = data
    diverging = fetch.diverging_epoch
    return FetchResponse.PartitionData(
        partition_index=fetch.partition,
        error_code=fetch.error,
        high_watermark=fetch.high_watermark,
        log_start_offset=fetch.log_start_offset,
        diverging_epoch=None if diverging is None else FetchResponse.EpochEndOffset(*diverging),
        records=records,
    )
