"""WriteTxnMarkers over the wire, and the transactions that markers end: what readers of committed records see."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.fetch import FetchResponse
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.protocol.messages.inter_broker import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from barnabas.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse
from barnabas.protocol.messages.topics import DeleteRecordsRequest, DeleteRecordsResponse
from barnabas.protocol.messages.transactions import InitProducerIdRequest, InitProducerIdResponse
from barnabas.records.record_batch import batches
from tests.broker.versions import each_version
from tests.support.raw_client import SECONDS, RawClient, make_batch, only_partition, record_bytes
from tests.support.server_fixtures import AGAINST, MODES, Server, make_server
from tests.support.transaction_markers import describe_producers

READ_UNCOMMITTED, READ_COMMITTED = 0, 1
Marker, Topic = WriteTxnMarkersRequest.WritableTxnMarker, WriteTxnMarkersRequest.WritableTxnMarkerTopic


@each_version(ApiKey.WRITE_TXN_MARKERS)
def test_markers_are_appended_to_the_partitions_that_exist(client: RawClient, topic: str, version: int) -> None:
    client.create_topic(topic, partitions=2)
    producer: dict[str, Any] = {"producer_id": 71, "producer_epoch": 2, "base_sequence": 0}
    assert client.produce(topic, make_batch([b"a"], **producer)).error_code == ErrorCode.NONE

    def mark(coordinator_epoch: int, epoch: int = 2) -> dict[str, dict[int, int]]:
        topics = [Topic(topic, [0, 1, 2]), Topic("no-such-topic", [0])]
        request = WriteTxnMarkersRequest([Marker(71, epoch, False, topics, coordinator_epoch)])
        (answer,) = client.call(request, version, WriteTxnMarkersResponse).markers
        assert answer.producer_id == 71
        return {
            each.name: {part.partition_index: part.error_code for part in each.partitions} for each in answer.topics
        }

    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert mark(5) == {topic: {0: 0, 1: 0, 2: unknown}, "no-such-topic": {0: unknown}}
    assert (client.end_offset(topic, 0), client.end_offset(topic, 1)) == (2, 1)
    (known,) = describe_producers(client, topic, 0)[0].active_producers
    assert (known.producer_epoch, known.coordinator_epoch, known.current_txn_start_offset) == (2, 5, -1)
    fenced = ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert mark(4)[topic] == {0: fenced, 1: fenced, 2: unknown}
    old = ErrorCode.INVALID_PRODUCER_EPOCH
    assert mark(5, epoch=1)[topic] == {0: old, 1: old, 2: unknown}


def test_a_partition_that_is_named_again_and_again_gets_one_marker(client: RawClient, topic: str) -> None:
    client.create_topic(topic)
    producer: dict[str, Any] = {"producer_id": 72, "producer_epoch": 0, "base_sequence": 0}
    assert client.produce(topic, make_batch([b"a"], **producer)).error_code == ErrorCode.NONE
    topics = [Topic(topic, [0] * 1000), Topic(topic, [0])]
    request = WriteTxnMarkersRequest([Marker(72, 0, False, topics, 1)])
    (answer,) = client.call(request, 1, WriteTxnMarkersResponse).markers
    assert [(each.name, len(each.partitions)) for each in answer.topics] == [(topic, 1)]
    assert client.end_offset(topic, 0) == 2


@pytest.fixture(scope="module", params=MODES)
def unverified(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that lets any producer begin a transaction in a partition: these tests play the coordinator."""
    server = make_server(
        request.param, tmp_path_factory.mktemp("markers"), transaction_partition_verification_enable="false"
    )
    with server.running():
        yield server


@pytest.fixture
def free(unverified: Server) -> Iterator[RawClient]:
    with RawClient(unverified) as client:
        yield client


class Transactions:
    """The producers of one partition, and their coordinator."""

    def __init__(self, client: RawClient, topic: str) -> None:
        self.client = client
        self.topic = topic
        self._sequences: dict[int, int] = {}

    def write(self, producer_id: int, *values: bytes) -> ErrorCode:
        sequence = self._sequences.get(producer_id, 0)
        self._sequences[producer_id] = sequence + len(values)
        records = make_batch(
            values, producer_id=producer_id, producer_epoch=0, base_sequence=sequence, is_transactional=True
        )
        data = ProduceRequest.TopicProduceData(
            self.topic, partition_data=[ProduceRequest.PartitionProduceData(0, records)]
        )
        answer = self.client.call(ProduceRequest("mine", -1, 1000, [data]), 9, ProduceResponse)
        return ErrorCode(answer.responses[0].partition_responses[0].error_code)

    def end(self, producer_id: int, *, commit: bool) -> None:
        marker = Marker(producer_id, 0, commit, [Topic(self.topic, [0])], 0)
        answer = self.client.call(WriteTxnMarkersRequest([marker]), 1, WriteTxnMarkersResponse)
        assert answer.markers[0].topics[0].partitions[0].error_code == ErrorCode.NONE

    def fetch(self, offset: int = 0, *, max_wait_ms: int = 0) -> FetchResponse.PartitionData:
        """As a reader of committed records."""
        request = self.client.fetch_request(self.topic, offset, 12, max_wait_ms=max_wait_ms)
        request.isolation_level = READ_COMMITTED
        return only_partition(self.client.call(request, 12, FetchResponse))

    def values(self) -> list[bytes | None]:
        """What such a reader is given: all batches of data below the last stable offset."""
        found = batches(record_bytes(self.fetch()))
        return [record.value for batch in found if not batch.is_control for record in batch.records()]

    def end_offset(self, isolation: int) -> int:
        place = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=-1)
        topic = ListOffsetsRequest.ListOffsetsTopic(self.topic, [place])
        answer = self.client.call(ListOffsetsRequest(-1, isolation, [topic]), 5, ListOffsetsResponse)
        return answer.topics[0].partitions[0].offset


def test_an_open_transaction_holds_readers_of_committed_records_back(free: RawClient, topic: str) -> None:
    free.create_topic(topic)
    transactions = Transactions(free, topic)
    free.produce_values(topic, b"before")
    assert transactions.write(71, b"a", b"b") == ErrorCode.NONE
    assert transactions.write(72, b"c") == ErrorCode.NONE
    free.produce_values(topic, b"after")
    assert transactions.values() == [b"before"]
    assert (transactions.end_offset(READ_COMMITTED), transactions.end_offset(READ_UNCOMMITTED)) == (1, 5)
    starts = {
        each.producer_id: each.current_txn_start_offset
        for each in describe_producers(free, topic, 0)[0].active_producers
    }
    assert starts == {71: 1, 72: 3}

    transactions.end(71, commit=True)
    assert transactions.values() == [b"before", b"a", b"b"]
    transactions.end(72, commit=False)
    read = transactions.fetch()
    assert [(each.producer_id, each.first_offset) for each in read.aborted_transactions or ()] == [(72, 3)]
    assert (read.last_stable_offset, transactions.end_offset(READ_COMMITTED)) == (7, 7)
    starts = {
        each.producer_id: each.current_txn_start_offset
        for each in describe_producers(free, topic, 0)[0].active_producers
    }
    assert starts == {71: -1, 72: -1}


def test_a_reader_that_waits_is_woken_by_the_marker(unverified: Server, free: RawClient, topic: str) -> None:
    free.create_topic(topic)
    transactions = Transactions(free, topic)
    assert transactions.write(71, b"a") == ErrorCode.NONE
    with RawClient(unverified) as reader:
        request = free.fetch_request(topic, 0, 12, max_wait_ms=20_000)
        request.isolation_level = READ_COMMITTED
        pending = reader.send(request, 12)
        transactions.end(71, commit=True)
        read = only_partition(reader.receive(FetchResponse, 12, pending))
    assert read.last_stable_offset == 2


@pytest.mark.skipif(AGAINST == "apache-kafka-4", reason="Apache Kafka 4 tells a last stable offset below the start")
def test_records_of_an_open_transaction_can_be_deleted(free: RawClient, topic: str) -> None:
    free.create_topic(topic)
    transactions = Transactions(free, topic)
    assert transactions.write(71, b"a", b"b", b"c") == ErrorCode.NONE
    place = DeleteRecordsRequest.DeleteRecordsPartition(0, 2)
    request = DeleteRecordsRequest([DeleteRecordsRequest.DeleteRecordsTopic(topic, [place])], 1000)
    (answer,) = free.call(request, 2, DeleteRecordsResponse).topics
    assert (answer.partitions[0].error_code, answer.partitions[0].low_watermark) == (ErrorCode.NONE, 2)
    assert transactions.end_offset(READ_COMMITTED) == 2
    transactions.end(71, commit=True)
    assert transactions.end_offset(READ_COMMITTED) == 4


def test_transactions_are_open_over_a_restart(tmp_path: Path, topic: str) -> None:
    server = make_server("inline", tmp_path / "server", transaction_partition_verification_enable="false")
    with server.running(), RawClient(server) as client:
        client.create_topic(topic)
        assert Transactions(client, topic).write(71, b"a") == ErrorCode.NONE
    with server.running(), RawClient(server) as client:
        client.wait_for_leaders(topic, 1)
        transactions = Transactions(client, topic)
        assert transactions.end_offset(READ_COMMITTED) == 0
        transactions.end(71, commit=False)
        assert transactions.end_offset(READ_COMMITTED) == 2


def test_a_transaction_that_its_coordinator_does_not_know_writes_nothing(client: RawClient, topic: str) -> None:
    client.create_topic(topic)
    client.await_transaction_coordinator("mine")
    assert Transactions(client, topic).write(71, b"a") == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert client.end_offset(topic) == 0


def begin(client: RawClient, transactional_id: str) -> InitProducerIdResponse:
    """Get a producer id for transactions; the first coordinator of a cluster's life needs a moment."""
    deadline = time.monotonic() + SECONDS
    while True:
        find = FindCoordinatorRequest(key_type=1, coordinator_keys=[transactional_id])
        client.call(find, 4, FindCoordinatorResponse)
        answer = client.call(InitProducerIdRequest(transactional_id, 60_000), 4, InitProducerIdResponse)
        if answer.error_code == ErrorCode.NONE:
            return answer
        assert time.monotonic() < deadline, answer
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("version", "error"), [(10, ErrorCode.INVALID_TXN_STATE), (11, ErrorCode.TRANSACTION_ABORTABLE)]
)
def test_a_partition_that_was_not_added_gets_nothing(
    client: RawClient, topic: str, version: int, error: ErrorCode
) -> None:
    client.create_topic(topic)
    producer = begin(client, topic)
    records = make_batch(
        [b"a"],
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=0,
        is_transactional=True,
    )
    data = ProduceRequest.TopicProduceData(topic, partition_data=[ProduceRequest.PartitionProduceData(0, records)])
    answer = client.call(ProduceRequest(topic, -1, 1000, [data]), version, ProduceResponse)
    assert answer.responses[0].partition_responses[0].error_code == error
    assert client.end_offset(topic) == 0
