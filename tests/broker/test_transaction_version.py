"""The requests of transaction.version 2: batches and offsets add their partitions, an end raises the epoch.

A coordinator answers an end before the markers are written, so every step is repeated while that may be the reason.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

import pytest

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.inter_broker import UpdateFeaturesRequest, UpdateFeaturesResponse
from barnabas.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from barnabas.protocol.messages.produce import ProduceResponse
from barnabas.protocol.messages.transactions import (
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from tests.support.raw_client import SECONDS, RawClient, make_batch
from tests.support.raw_group_member import await_coordinator
from tests.support.raw_offsets import NOT_COMMITTED, fetch_offsets
from tests.support.server_fixtures import AGAINST, AGAINST_KAFKA, MODES, make_server
from tests.support.waiting import wait_until

pytestmark = pytest.mark.skipif(AGAINST == "apache-kafka", reason="Apache Kafka 3.9 has no transaction.version 2")

NONE = ErrorCode.NONE
PASSING = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_ENOUGH_REPLICAS,
)
"""What a client repeats, as the brokers of new topics answer it, too."""
READ_COMMITTED = 1
LATEST = -1

Answer = TypeVar("Answer")


class Producer(NamedTuple):
    """What a producer knows of itself."""

    producer_id: int
    epoch: int


class Transactions:
    """The requests of one transactional id."""

    def __init__(self, client: RawClient, topic: str) -> None:
        self._client = client
        self._topic = topic

    def start(self) -> Producer:
        def ask() -> InitProducerIdResponse:
            return self._client.call(InitProducerIdRequest(self._topic, 60_000), 5, InitProducerIdResponse)

        answer = _repeated(ask, lambda answer: answer.error_code)
        assert answer.error_code == NONE
        return Producer(answer.producer_id, answer.producer_epoch)

    def produce(self, producer: Producer, sequence: int, version: int = 12) -> int:
        """Produce one record; its error."""
        records = make_batch(
            [b"v"],
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        request = self._client.produce_request(self._topic, records, version, -1)
        request.transactional_id = self._topic

        def ask() -> ProduceResponse.PartitionProduceResponse:
            (topic,) = self._client.call(request, version, ProduceResponse).responses
            return topic.partition_responses[0]

        return _repeated(ask, lambda answer: answer.error_code).error_code

    def commit_offset(self, producer: Producer, offset: int) -> int:
        """Commit an offset of the group that has the topic's name; its error."""
        partition = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(0, offset, 3, "m")
        topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(self._topic, [partition])
        request = TxnOffsetCommitRequest(self._topic, self._topic, *producer, topics=[topic])

        def ask() -> TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition:
            (answered,) = self._client.call(request, 5, TxnOffsetCommitResponse).topics
            return answered.partitions[0]

        return _repeated(ask, lambda answer: answer.error_code).error_code

    def end(self, producer: Producer, *, commits: bool) -> tuple[int, Producer]:
        """End the transaction; the error, and what the producer is from now on."""
        request = EndTxnRequest(self._topic, *producer, commits)
        answer = _repeated(lambda: self._client.call(request, 5, EndTxnResponse), lambda answer: answer.error_code)
        return answer.error_code, Producer(answer.producer_id, answer.producer_epoch)

    def await_stable_end(self, offset: int) -> None:
        """Wait until a reader of committed records finds its end at `offset`."""
        partition = ListOffsetsRequest.ListOffsetsPartition(0, -1, LATEST)
        request = ListOffsetsRequest(
            -1, READ_COMMITTED, [ListOffsetsRequest.ListOffsetsTopic(self._topic, [partition])]
        )
        asked = partial(self._client.call, request, 5, ListOffsetsResponse)
        wait_until(asked, SECONDS, lambda answer: answer.topics[0].partitions[0].offset == offset)


def _repeated(ask: Callable[[], Answer], error_of: Callable[[Answer], int]) -> Answer:
    deadline = time.monotonic() + SECONDS
    while error_of(answer := ask()) in PASSING and time.monotonic() < deadline:
        time.sleep(0.02)
    return answer


@pytest.fixture
def transactions(client: RawClient, topic: str) -> Transactions:
    """The transactional id that is called as the topic, and a group of the same name."""
    await_coordinator(client, topic)
    client.await_transaction_coordinator(topic)
    client.create_topic(topic)
    return Transactions(client, topic)


@pytest.mark.skipif(AGAINST_KAFKA, reason="Apache Kafka 4 has more features")
def test_the_feature_is_offered_when_it_is_in_force(tmp_path: Path) -> None:
    server = make_server(MODES[0], tmp_path / "server")
    change = UpdateFeaturesRequest.FeatureUpdateKey("transaction.version", 2)
    with server.running(), RawClient(server) as client:
        before = _features(client)
        assert not before.finalized_features
        answer = client.call(UpdateFeaturesRequest(1_000, [change]), 1, UpdateFeaturesResponse)
        assert [result.error_code for result in answer.results] == [NONE]
    with server.running(), RawClient(server) as client:
        after = _features(client)
        assert [(each.name, each.max_version_level) for each in after.finalized_features] == [(change.feature, 2)]
        assert after.finalized_features_epoch > before.finalized_features_epoch
        assert client.call(ApiVersionsRequest(), 2, ApiVersionsResponse).finalized_features == []


def _features(client: RawClient) -> ApiVersionsResponse:
    answer = client.call(ApiVersionsRequest("test", "1"), 4, ApiVersionsResponse)
    assert [(each.name, each.min_version, each.max_version) for each in answer.supported_features] == [
        ("transaction.version", 0, 2)
    ]
    return answer


def test_each_transaction_has_its_epoch(transactions: Transactions) -> None:
    producer = transactions.start()
    assert transactions.produce(producer, 0) == NONE
    assert transactions.produce(producer, 1) == NONE
    error, following = transactions.end(producer, commits=True)
    assert (error, following) == (NONE, Producer(producer.producer_id, producer.epoch + 1))
    assert transactions.end(producer, commits=True) == (NONE, following), "its answer was lost"
    assert transactions.end(producer, commits=False)[0] == ErrorCode.INVALID_TXN_STATE
    # Offsets 0 and 1, and the marker. The next transaction begins while that is on its way, or later.
    assert transactions.produce(following, 0) == NONE
    transactions.await_stable_end(3)
    assert transactions.produce(producer, 2) == ErrorCode.INVALID_PRODUCER_EPOCH, "a late batch"
    assert transactions.end(following, commits=False)[0] == NONE
    transactions.await_stable_end(5)


def test_a_transaction_without_records_is_aborted_and_not_committed(transactions: Transactions) -> None:
    producer = transactions.start()
    assert transactions.end(producer, commits=True)[0] == ErrorCode.INVALID_TXN_STATE
    error, following = transactions.end(producer, commits=False)
    assert (error, following.epoch) == (NONE, producer.epoch + 1)
    assert transactions.produce(following, 0) == NONE


def test_an_older_produce_request_adds_nothing(transactions: Transactions) -> None:
    producer = transactions.start()
    assert transactions.produce(producer, 0, version=11) == ErrorCode.TRANSACTION_ABORTABLE
    assert transactions.end(producer, commits=True)[0] == ErrorCode.INVALID_TXN_STATE


def test_offsets_add_their_partition(transactions: Transactions, client: RawClient, topic: str) -> None:
    producer = transactions.start()
    assert transactions.commit_offset(producer, 5) == NONE
    assert fetch_offsets(client, topic, topic, [0]) == {0: NOT_COMMITTED}
    error, following = transactions.end(producer, commits=True)
    assert error == NONE
    assert transactions.commit_offset(following, 6) == NONE, "asked while the first marker may be on its way"
    assert fetch_offsets(client, topic, topic, [0]) == {0: (5, 3, "m", NONE)}
    assert transactions.end(following, commits=False)[0] == NONE
