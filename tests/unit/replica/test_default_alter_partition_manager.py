"""Changes of in-sync replicas asked of the controller: batched, one request at a time, repeated until answered."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Sequence

import pytest

from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.inter_broker import AlterPartitionRequest, AlterPartitionResponse
from barnabas.protocol.messages.message import Message
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.protocol.uuid import ZERO_UUID
from barnabas.replica.isr.default_alter_partition_manager import AlterPartitionSender, DefaultAlterPartitionManager
from barnabas.replica.isr.isr_updates import IsrChange
from barnabas.replica.replica_config import alter_partition_version_of
from barnabas.rpc.connection_states import Node
from barnabas.rpc.metadata_updater import ManualMetadataUpdater
from barnabas.rpc.network_client import NetworkClient
from barnabas.rpc.network_client_config import NetworkClientConfig
from barnabas.zk.znodes.topic_zk_data import LeaderAndIsr
from tests.support.mock_clock import MockClock
from tests.support.scripted_selector import ScriptedSelector, SentRequest

WAIT_SECONDS = 60
NODES = {7: Node(7, "127.0.0.1", 9092), 8: Node(8, "127.0.0.1", 9093)}
ONE, TWO, THREE = (TopicPartition("orders", number) for number in range(3))
TOPIC_ID = bytes(range(16))
WANTED = LeaderAndIsr(0, 5, (0, 2), partition_epoch=9)
FINAL = (ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.INELIGIBLE_REPLICA)
Outcome = LeaderAndIsr | ApiError
Answer = AlterPartitionResponse


class Cluster:
    """Brokers 7 and 8, one of which is the controller; the manager under test is of broker 0.

    errors: of partitions. top_errors: of the next requests, in order. frozen: brokers that do not answer.
    """

    def __init__(self, last_version: int = 3) -> None:
        self.clock = MockClock()
        self.selector = ScriptedSelector(self.clock)
        self.selector.passes_time = True
        self.selector.responder = self.respond
        self.requests: list[AlterPartitionRequest] = []
        self.versions: list[int] = []
        self.senders: list[str] = []
        self.errors: dict[int, ErrorCode] = {}
        self.top_errors: list[ErrorCode] = []
        self.frozen: set[str] = set()
        self.was_asked = threading.Event()
        self.controller_id = 7
        self.broker_epoch = 40
        self.manager = DefaultAlterPartitionManager(
            AlterPartitionSender(0, lambda: self.broker_epoch, last_version), self, lambda: self.controller_id
        )
        self.outcomes: queue.Queue[tuple[TopicPartition, Outcome]] = queue.Queue()

    def node(self, broker_id: int) -> Node:
        return NODES[broker_id]

    def new_client(self) -> NetworkClient:
        config = NetworkClientConfig(max_in_flight=1, discover_broker_versions=False)
        return NetworkClient(self.selector, ManualMetadataUpdater([]), config, self.clock)

    def submit(self, partition: TopicPartition, wanted: LeaderAndIsr = WANTED, topic_id: bytes = TOPIC_ID) -> None:
        self.manager.submit(
            IsrChange(partition, topic_id, wanted, 1, {2: 41}, lambda outcome: self.outcomes.put((partition, outcome)))
        )

    def outcome(self) -> Outcome:
        return self.outcomes.get(timeout=WAIT_SECONDS)[1]

    def respond(self, request: SentRequest) -> Message | None:
        body = request.body
        assert isinstance(body, AlterPartitionRequest)
        self.requests.append(body)
        self.versions.append(request.header.api_version)
        self.senders.append(request.connection_id)
        self.was_asked.set()
        if request.connection_id in self.frozen:
            return None
        if self.top_errors:
            return Answer(error_code=self.top_errors.pop(0))
        topics = [
            Answer.TopicData(each.topic_name, each.topic_id, self.answers(each.partitions)) for each in body.topics
        ]
        return Answer(topics=topics)

    def answers(self, asked: Sequence[AlterPartitionRequest.PartitionData]) -> list[Answer.PartitionData]:
        return [
            Answer.PartitionData(
                each.partition_index,
                self.errors.get(each.partition_index, ErrorCode.NONE),
                leader_id=0,
                leader_epoch=each.leader_epoch,
                isr=[state.broker_id for state in each.new_isr_with_epochs] or each.new_isr,
                partition_epoch=each.partition_epoch + 1,
            )
            for each in asked
        ]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = Cluster()
    yield made
    made.manager.shutdown()


def written(wanted: LeaderAndIsr = WANTED) -> LeaderAndIsr:
    return wanted.with_partition_epoch(wanted.partition_epoch + 1)


def test_a_change_names_its_brokers_epochs(cluster: Cluster) -> None:
    cluster.submit(ONE)
    assert cluster.outcome() == written()
    (request,) = cluster.requests
    (topic,) = request.topics
    (partition,) = topic.partitions
    assert (request.broker_id, request.broker_epoch, cluster.versions) == (0, 40, [3])
    assert (topic.topic_id, partition.partition_index, partition.leader_epoch) == (TOPIC_ID, 0, 5)
    assert partition.partition_epoch == 9
    assert [(each.broker_id, each.broker_epoch) for each in partition.new_isr_with_epochs] == [(0, 40), (2, 41)]


def test_one_request_has_all_changes_that_wait(cluster: Cluster) -> None:
    cluster.controller_id = -1
    for partition in (ONE, TWO, THREE):
        cluster.submit(partition)
    cluster.errors = {1: ErrorCode.INELIGIBLE_REPLICA}
    cluster.controller_id = 7
    found = dict(cluster.outcomes.get(timeout=WAIT_SECONDS) for _ in range(3))
    assert found[ONE] == found[THREE] == written()
    refused = found[TWO]
    assert isinstance(refused, ApiError)
    assert refused.code is ErrorCode.INELIGIBLE_REPLICA
    asked = [partition.partition_index for each in cluster.requests for partition in each.topics[0].partitions]
    assert sorted(asked) == [0, 1, 2]


@pytest.mark.parametrize("error", FINAL)
def test_an_answer_is_the_last_word(cluster: Cluster, error: ErrorCode) -> None:
    cluster.errors = {0: error}
    cluster.submit(ONE)
    outcome = cluster.outcome()
    assert isinstance(outcome, ApiError)
    assert outcome.code is error
    cluster.errors = {}
    cluster.submit(ONE, WANTED.new_epoch())
    assert cluster.outcome() == written(WANTED.new_epoch()), "the partition is free for its next change"


@pytest.mark.parametrize(
    "error", [ErrorCode.STALE_BROKER_EPOCH, ErrorCode.NOT_CONTROLLER, ErrorCode.UNKNOWN_SERVER_ERROR]
)
def test_an_error_of_the_whole_answer_is_asked_again(cluster: Cluster, error: ErrorCode) -> None:
    cluster.top_errors = [error, error]
    cluster.submit(ONE)
    assert cluster.outcome() == written()
    assert len(cluster.requests) == 3


def test_a_lost_answer_is_asked_for_again_of_the_next_controller(cluster: Cluster) -> None:
    cluster.frozen = {"7"}
    cluster.submit(ONE)
    assert cluster.was_asked.wait(WAIT_SECONDS)
    cluster.controller_id = 8
    cluster.submit(TWO)  # wakes the thread, as its own poll would after a second
    assert {cluster.outcome(), cluster.outcome()} == {written()}
    assert set(cluster.senders) == {"7", "8"}


def test_a_partition_whose_broker_is_no_longer_the_controller_is_asked_again(cluster: Cluster) -> None:
    cluster.errors = {1: ErrorCode.NOT_CONTROLLER}
    cluster.submit(ONE)
    cluster.submit(TWO)
    assert cluster.outcomes.get(timeout=WAIT_SECONDS) == (ONE, written())
    cluster.errors = {}
    assert cluster.outcomes.get(timeout=WAIT_SECONDS) == (TWO, written())


def test_a_partition_has_one_change_at_a_time(cluster: Cluster) -> None:
    cluster.frozen = {"7"}
    cluster.submit(ONE)
    assert cluster.was_asked.wait(WAIT_SECONDS)
    cluster.submit(ONE, WANTED.new_epoch())
    outcome = cluster.outcome()
    assert isinstance(outcome, ApiError)
    assert outcome.code is ErrorCode.OPERATION_NOT_ATTEMPTED


@pytest.mark.parametrize(
    ("protocol", "version"),
    [("2.6", None), ("2.7-IV1", None), ("2.7-IV2", 1), ("2.7", 1), ("2.8-IV0", 3), ("3.9", 3), ("0.9.0", None)],
)
def test_the_protocol_between_brokers_chooses_the_version(protocol: str, version: int | None) -> None:
    assert alter_partition_version_of(protocol) == version


@pytest.mark.parametrize(("last_version", "topic_id", "sent"), [(1, TOPIC_ID, 1), (2, TOPIC_ID, 2), (3, ZERO_UUID, 1)])
def test_older_versions_name_topics_and_replicas(last_version: int, topic_id: bytes, sent: int) -> None:
    cluster = Cluster(last_version)
    try:
        cluster.submit(ONE, topic_id=topic_id)
        assert cluster.outcome() == written()
        assert cluster.versions == [sent]
        assert cluster.requests[0].topics[0].partitions[0].new_isr == [0, 2]
    finally:
        cluster.manager.shutdown()
