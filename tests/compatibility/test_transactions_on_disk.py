"""Transactions in a data directory: ours goes on with those that Apache Kafka 3.9 left, and the other way round.

One transaction of each kind is there: committed, aborted, open, and one whose end is decided and not carried out. Such
a one is left by a broker that dies before it has written the markers: its record is appended to the stopped broker's
log. Kafka's DumpLogSegments and `barnabas log dump` print the same of either transaction log.
"""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from barnabas.clients.consumer import Consumer
from barnabas.coordinator.runtime.record import decode_record, encode_record, version_of
from barnabas.coordinator.transaction.transaction_log import TransactionLogValue, encode_key
from barnabas.coordinator.transaction.transaction_metadata import TransactionState
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.produce import ProduceResponse
from barnabas.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.memory_records import any_batches
from barnabas.records.record_batch import RecordBatch
from barnabas.records.record_batch_builder import RecordBatchBuilder
from tests.compatibility.data_dirs import adopt, barnabas_dump, copy_data_dir, partition_dirs, start_over_data_dir
from tests.support.apache_kafka import ApacheKafka, dump_log_segments, need_apache_kafka
from tests.support.barnabas_process import BarnabasProcess
from tests.support.raw_client import SECONDS, RawClient, make_batch
from tests.support.raw_group_member import await_coordinator
from tests.support.raw_offsets import NOT_COMMITTED, fetch_offsets
from tests.support.server_process import ServerProcess
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(300)]

TOPIC, GROUP = "written", "readers"
LOG = "__transaction_state"
PLACES = [TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)]
IDS = ("committed", "aborted", "decided", "open")
TIMEOUT_MS = 600_000
PROPERTIES = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "zookeeper.session.timeout.ms": "4000",
    "log.cleaner.enable": "false",
}
COMPACTED = {"cleanup.policy": "compact"}
CONFIGS = {"__consumer_offsets": COMPACTED | {"compression.type": "producer"}, LOG: COMPACTED, TOPIC: {}}


def until(call: Callable[[], Any], is_right: Callable[[Any], bool]) -> Any:
    """The first result of `call` that is right."""
    return wait_until(call, 2 * SECONDS, is_right)


class Writer(NamedTuple):
    """A producer with an open transaction, as the protocol has it."""

    transactional_id: str
    producer_id: int
    epoch: int

    @classmethod
    def begin(cls, client: RawClient, transactional_id: str) -> Writer:
        """Get a producer id, and add both partitions to its transaction."""
        answer = until(
            lambda: client.call(InitProducerIdRequest(transactional_id, TIMEOUT_MS), 4, InitProducerIdResponse),
            lambda answer: answer.error_code == ErrorCode.NONE,
        )
        writer = cls(transactional_id, answer.producer_id, answer.producer_epoch)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=writer.producer_id,
            v3_and_below_producer_epoch=writer.epoch,
            v3_and_below_topics=[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(TOPIC, [0, 1])],
        )
        (added,) = client.call(request, 3, AddPartitionsToTxnResponse).results_by_topic_v3_and_below
        assert {each.partition_error_code for each in added.results_by_partition} == {ErrorCode.NONE}
        return writer

    def write(self, client: RawClient, sequence: int) -> None:
        """Append a record of the transaction to each partition."""
        for place in PLACES:
            batch = make_batch(
                [b"%s %d" % (self.transactional_id.encode(), sequence)],
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                base_sequence=sequence,
                is_transactional=True,
            )
            request = client.produce_request(TOPIC, batch, 9, -1, place.partition)
            request.transactional_id = self.transactional_id
            ((answer,),) = (each.partition_responses for each in client.call(request, 9, ProduceResponse).responses)
            assert answer.error_code == ErrorCode.NONE, answer

    def commit_offset(self, client: RawClient, offset: int) -> None:
        """Commit an offset of the group with the transaction."""
        added = AddOffsetsToTxnRequest(self.transactional_id, self.producer_id, self.epoch, GROUP)
        assert client.call(added, 3, AddOffsetsToTxnResponse).error_code == ErrorCode.NONE
        partition = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(0, offset, -1, "m")
        topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(TOPIC, [partition])
        request = TxnOffsetCommitRequest(self.transactional_id, GROUP, self.producer_id, self.epoch, topics=[topic])
        (answer,) = client.call(request, 3, TxnOffsetCommitResponse).topics
        assert answer.partitions[0].error_code == ErrorCode.NONE

    def end(self, client: RawClient, *, commits: bool) -> None:
        """Commit or abort."""
        request = EndTxnRequest(self.transactional_id, self.producer_id, self.epoch, commits)
        until(
            lambda: ErrorCode(client.call(request, 3, EndTxnResponse).error_code), lambda code: code == ErrorCode.NONE
        )


def make_transactions(client: RawClient) -> Writer:
    """One of each kind, the decided one still open; returns the producer of the open one."""
    client.create_topic(TOPIC, 2)
    client.wait_for_leaders(TOPIC, 2)
    await_coordinator(client, GROUP)
    # Makes the topic of the coordinators. Not asked about an id that exists: the question might begin a transaction.
    client.await_transaction_coordinator("nothing")
    writers = {}
    for name in IDS:
        writers[name] = Writer.begin(client, name)
        writers[name].write(client, 0)
    writers["committed"].end(client, commits=True)
    writers["aborted"].end(client, commits=False)
    # The markers come later than the answers.
    until(lambda: described(client), lambda found: found["committed"]["state"] == "CompleteCommit")
    until(lambda: described(client), lambda found: found["aborted"]["state"] == "CompleteAbort")
    writers["open"].commit_offset(client, 7)
    return writers["open"]


def described(client: RawClient) -> dict[str, Any]:
    """All transactional ids, once their coordinator has loaded them."""

    def ask() -> DescribeTransactionsResponse:
        return client.call(DescribeTransactionsRequest(list(IDS)), 0, DescribeTransactionsResponse)

    answer = until(ask, lambda answer: all(each.error_code == ErrorCode.NONE for each in answer.transaction_states))
    return {
        each.transactional_id: {
            "state": each.transaction_state,
            "timeout": each.transaction_timeout_ms,
            "started": each.transaction_start_time_ms if each.topics else None,
            "producer": (each.producer_id, each.producer_epoch),
            "partitions": sorted((topic.topic, sorted(topic.partitions)) for topic in each.topics),
        }
        for each in answer.transaction_states
    }


def committed_values(server: ServerProcess) -> dict[int, list[bytes | None]]:
    """What a reader of committed records sees, by partition."""
    values: dict[int, list[bytes | None]] = {place.partition: [] for place in PLACES}
    with Consumer(server.bootstrap_servers, isolation_level="read_committed") as consumer:
        consumer.assign(PLACES)
        consumer.seek_to_beginning(PLACES)
        ends = consumer.end_offsets(PLACES)
        while any(consumer.position(place) < ends[place] for place in PLACES):
            for record in consumer.poll(1000):
                values[record.partition].append(record.value)
    return values


def decide_one(data_dir: Path) -> None:
    """Append the decision to commit the open transaction `decided` to the log of a broker that has stopped.

    The mark of the clean stop goes: a broker that dies leaves none, and the next one recovers its logs.
    """
    key = encode_key("decided")
    for directory in partition_dirs(data_dir)[LOG].values():
        (path,) = directory.glob("*.log")
        batches = [batch for batch in any_batches(path.read_bytes()) if isinstance(batch, RecordBatch)]
        values = [record.value for batch in batches for record in batch.records() if record.key == key]
        if not values:
            continue
        last = values[-1]
        assert last is not None
        value = decode_record(TransactionLogValue, last)
        assert value.transaction_status == TransactionState.ONGOING.value
        value.transaction_status = TransactionState.PREPARE_COMMIT.value
        builder = RecordBatchBuilder(
            base_offset=batches[-1].next_offset, partition_leader_epoch=batches[-1].partition_leader_epoch
        )
        builder.append(int(time.time() * 1000), key, encode_record(value, version_of(last)))
        with path.open("ab") as log:
            log.write(builder.build())
    (data_dir / ".kafka_cleanshutdown").unlink()


def check_goes_on(server: ServerProcess, open_writer: Writer, before: dict[str, Any]) -> None:
    """The broker carries the decision out, and the open transaction can be continued and committed."""
    with RawClient(server) as client:
        client.wait_for_leaders(TOPIC, 2)
        await_coordinator(client, GROUP)
        found = until(lambda: described(client), lambda found: found["decided"]["state"] == "CompleteCommit")
        assert found["decided"]["producer"] == before["decided"]["producer"]
        assert {**found, "decided": None} == {**before, "decided": None}
        visible = {0: [b"committed 0", b"decided 0"], 1: [b"committed 0", b"decided 0"]}
        assert committed_values(server) == visible
        assert fetch_offsets(client, GROUP, TOPIC, [0]) == {0: NOT_COMMITTED}
        unstable = fetch_offsets(client, GROUP, TOPIC, [0], require_stable=True)
        assert unstable[0][3] == ErrorCode.UNSTABLE_OFFSET_COMMIT
        open_writer.write(client, 1)
        open_writer.end(client, commits=True)
        until(lambda: described(client), lambda found: found["open"]["state"] == "CompleteCommit")
        all_values = {number: [*values, b"open 0", b"open 1"] for number, values in visible.items()}
        assert committed_values(server) == all_values
        assert fetch_offsets(client, GROUP, TOPIC, [0], require_stable=True)[0][0] == 7
        # The fenced producer cannot write any more, the new one can.
        for name in IDS:
            writer = Writer.begin(client, name)
            assert writer.epoch == found[name]["producer"][1] + 1
            writer.write(client, 0)
            writer.end(client, commits=False)


def in_order(line: str) -> str:
    """A line of a dump with the partitions of a transaction in order: Kafka prints a set."""
    return re.sub(r"partitions=\[(.*?)\]", lambda found: f"partitions=[{','.join(sorted(found[1].split(',')))}]", line)


def stored_states(data_dir: Path, scratch: Path) -> dict[str, list[tuple[str, ...]]]:
    """State, partitions and timeout of every record by transactional id, as Kafka's tool prints them; ours does too."""
    files = [path for directory in partition_dirs(data_dir)[LOG].values() for path in sorted(directory.glob("*.log"))]
    dumped = dump_log_segments(files, "--transaction-log-decoder", directory=scratch)
    assert dumped.complaints == []
    assert list(map(in_order, barnabas_dump(*files, "--transaction-log-decoder").splitlines())) == list(
        map(in_order, dumped.lines)
    )
    found = defaultdict(list)
    for line in dumped.lines:
        record = re.search(
            r"transactionalId=(\S+) payload: .*,state=(\w+),partitions=(.*?),txnLast.*Ms=(\d+)", in_order(line)
        )
        if record is not None:
            found[record[1]].append(record.groups()[1:])
    assert found.keys() == set(IDS)
    return found


class Left(NamedTuple):
    """What a broker has left in its directory."""

    data_dir: Path
    open_writer: Writer
    before: dict[str, Any]


def leave(server: ApacheKafka | BarnabasProcess) -> Left:
    """Run a broker that leaves transactions of every kind."""
    try:
        server.start()
        with RawClient(server) as client:
            writer = make_transactions(client)
            before = described(client)
        server.stop()
    finally:
        server.close()
    decide_one(server.data_dir)
    return Left(server.data_dir, writer, before)


@pytest.fixture(scope="module")
def kafkas(tmp_path_factory: pytest.TempPathFactory) -> Left:
    need_apache_kafka()
    return leave(ApacheKafka(tmp_path_factory.mktemp("kafkas"), PROPERTIES))


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Left:
    return leave(BarnabasProcess(tmp_path_factory.mktemp("ours"), PROPERTIES))


def test_kafkas_tool_prints_the_same_of_either_transaction_log(kafkas: Left, ours: Left, tmp_path: Path) -> None:
    stored = stored_states(kafkas.data_dir, tmp_path)
    assert [state for state, *_ in stored["decided"]] == ["Empty", "Ongoing", "PrepareCommit"]
    assert stored_states(ours.data_dir, tmp_path) == stored


def test_we_go_on_with_kafkas_transactions(kafkas: Left, tmp_path: Path) -> None:
    directory = copy_data_dir(kafkas.data_dir, tmp_path / "adopted")
    adopt(directory, configs=CONFIGS)
    server = BarnabasProcess(tmp_path / "server", PROPERTIES)
    server.data_dir = directory
    try:
        server.start()
        check_goes_on(server, kafkas.open_writer, kafkas.before)
    finally:
        server.close()


def test_kafka_goes_on_with_our_transactions(ours: Left, tmp_path: Path) -> None:
    need_apache_kafka()
    kafka = ApacheKafka(tmp_path / "kafka", PROPERTIES)
    kafka.data_dir = copy_data_dir(ours.data_dir, tmp_path / "data")
    try:
        start_over_data_dir(kafka, CONFIGS)
        check_goes_on(kafka, ours.open_writer, ours.before)
    finally:
        kafka.close()
