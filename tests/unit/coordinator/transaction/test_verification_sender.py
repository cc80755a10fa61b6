"""The questions to coordinators of other brokers: sent together, answered each, and refused where nobody answers."""

from __future__ import annotations

import queue
from collections.abc import Iterator

import pytest

from barnabas.coordinator.transaction.transaction_metadata import ProducerIdAndEpoch
from barnabas.coordinator.transaction.transaction_service import VerificationErrors
from barnabas.coordinator.transaction.verification_sender import Question, VerificationSender
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.message import Message
from barnabas.protocol.messages.transactions import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.rpc.connection_states import Node
from barnabas.rpc.metadata_updater import ManualMetadataUpdater
from barnabas.rpc.network_client import NetworkClient
from barnabas.rpc.network_client_config import NetworkClientConfig
from tests.support.mock_clock import MockClock
from tests.support.scripted_selector import ScriptedSelector, SentRequest

WAIT_SECONDS = 30
COORDINATOR = Node(7, "127.0.0.1", 9092)
ORDERS = [TopicPartition("orders", 0), TopicPartition("orders", 1)]
PRODUCER = ProducerIdAndEpoch(11, 3)


class Coordinator:
    """The other broker: it refuses the places in `errors`, or everything with `error`."""

    def __init__(self) -> None:
        self.clock = MockClock()
        self.selector = ScriptedSelector(self.clock)
        self.selector.passes_time = True
        self.selector.responder = self.respond
        self.requests: list[AddPartitionsToTxnRequest] = []
        self.versions: set[int] = set()
        self.errors: dict[TopicPartition, ErrorCode] = {}
        self.error = ErrorCode.NONE
        self.known: dict[str, int] = {"one": 7, "two": 7, "gone": 8}
        self.sender = VerificationSender(self, self.known.get, "test-verification-sender")
        self.answers: queue.Queue[VerificationErrors] = queue.Queue()

    def node(self, broker_id: int) -> Node:
        return {COORDINATOR.id: COORDINATOR}[broker_id]

    def new_client(self) -> NetworkClient:
        config = NetworkClientConfig(max_in_flight=1, discover_broker_versions=False)
        return NetworkClient(self.selector, ManualMetadataUpdater([]), config, self.clock)

    def ask(self, transactional_id: str, *, adds: bool = False) -> None:
        self.sender.ask(Question(transactional_id, PRODUCER, ORDERS, adds, self.answers.put))

    def answer(self) -> VerificationErrors:
        return self.answers.get(timeout=WAIT_SECONDS)

    def respond(self, request: SentRequest) -> Message | None:
        body = request.body
        assert isinstance(body, AddPartitionsToTxnRequest)
        self.requests.append(body)
        self.versions.add(request.header.api_version)
        answer = AddPartitionsToTxnResponse
        results = [
            answer.AddPartitionsToTxnResult(
                each.transactional_id,
                [
                    answer.AddPartitionsToTxnTopicResult(
                        topic.name,
                        [
                            answer.AddPartitionsToTxnPartitionResult(
                                number, self.errors.get(TopicPartition(topic.name, number), ErrorCode.NONE)
                            )
                            for number in topic.partitions
                        ],
                    )
                    for topic in each.topics
                ],
            )
            for each in body.transactions
        ]
        return answer(error_code=self.error, results_by_transaction=results)


@pytest.fixture
def coordinator() -> Iterator[Coordinator]:
    made = Coordinator()
    yield made
    made.sender.shutdown()


def test_a_coordinator_says_which_partitions_are_part_of_the_transaction(coordinator: Coordinator) -> None:
    coordinator.errors[ORDERS[1]] = ErrorCode.TRANSACTION_ABORTABLE
    coordinator.ask("one")
    assert coordinator.answer() == {ORDERS[1]: ErrorCode.TRANSACTION_ABORTABLE}
    coordinator.errors.clear()
    coordinator.ask("two", adds=True)
    assert coordinator.answer() == {}
    asked = [transaction for request in coordinator.requests for transaction in request.transactions]
    assert [(each.transactional_id, each.producer_id, each.producer_epoch, each.verify_only) for each in asked] == [
        ("one", 11, 3, True),
        ("two", 11, 3, False),
    ]
    assert coordinator.versions == {5}


def test_questions_of_one_transaction_are_told_apart(coordinator: Coordinator) -> None:
    """The answer names the transaction only: two questions of one must not be in one request."""
    for _ in range(3):
        coordinator.ask("one")
        coordinator.ask("two")
    assert [coordinator.answer() for _ in range(6)] == 6 * [{}]
    for request in coordinator.requests:
        asked = [each.transactional_id for each in request.transactions]
        assert len(asked) == len(set(asked))


@pytest.mark.parametrize(
    ("answered", "told"),
    [
        (
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            ErrorCode.INVALID_TXN_STATE,
        ),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_an_error_of_the_whole_answer(coordinator: Coordinator, answered: ErrorCode, told: ErrorCode) -> None:
    coordinator.error = answered
    coordinator.ask("one")
    assert coordinator.answer() == dict.fromkeys(ORDERS, told)


def test_where_nobody_answers_the_producer_tries_again(coordinator: Coordinator) -> None:
    coordinator.ask("unknown")
    assert coordinator.answer() == dict.fromkeys(ORDERS, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    coordinator.ask("gone")
    assert coordinator.answer() == dict.fromkeys(ORDERS, ErrorCode.NETWORK_EXCEPTION)
    coordinator.selector.refused.add(str(COORDINATOR.id))
    coordinator.ask("one")
    assert coordinator.answer() == dict.fromkeys(ORDERS, ErrorCode.NETWORK_EXCEPTION)
    coordinator.sender.shutdown()
    coordinator.ask("one")
    assert coordinator.answer() == dict.fromkeys(ORDERS, ErrorCode.COORDINATOR_NOT_AVAILABLE)


def test_a_broker_that_asks_nobody_has_no_thread() -> None:
    coordinator = Coordinator()
    coordinator.sender.shutdown()
    assert coordinator.selector.attempts == []
