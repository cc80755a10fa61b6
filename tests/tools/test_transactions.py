"""kafka-transactions: what it lists, describes, finds and aborts; the same of our transactions as of Apache Kafka's."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from barnabas.clients.producer import Producer
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.produce import ProduceResponse
from barnabas.protocol.topic_partition import TopicPartition
from tests.support.raw_client import SECONDS, RawClient, make_batch
from tests.support.server_fixtures import Server
from tests.support.transaction_markers import wait_for_markers
from tests.tools.kafka_tools import SameSteps, ToolOutput

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(600)]

TRANSACTIONS = "kafka-transactions"
VERIFICATION = "transaction.partition.verification.enable"
LOST_PRODUCER_ID = 880_000
MINUTE_MS = 60_000
NUMBERED_COLUMNS = {
    "ProducerId",
    "LastTimestamp",
    "CurrentTransactionStartTimeMs",
    "TransactionDurationMs",
    "Duration(min)",
}
"""Those that differ from server to server: only whether there is a number is compared."""


def table(output: ToolOutput) -> list[dict[str, str]]:
    """The rows of a tool's table, with `N` for numbers that differ and partitions in order."""
    assert output.status == 0, output.text
    header, *lines = output.stdout.splitlines()
    rows = []
    for line in lines:
        row = dict(zip(header.split(), line.split(), strict=False))
        for name, cell in row.items():
            if name in NUMBERED_COLUMNS and cell.lstrip("-").isdigit():
                row[name] = "N"
            elif "," in cell:
                row[name] = ",".join(sorted(cell.split(",")))
        rows.append(row)
    return rows


class TransactionSteps:
    """Steps on both servers, with the same names on both."""

    def __init__(self, steps: SameSteps, topic: str) -> None:
        self.steps = steps
        self.topic = topic
        self.servers: tuple[Server, ...] = (steps.ours, steps.theirs)
        for server in self.servers:
            with RawClient(server) as client:
                client.create_topic(topic, 2)
                client.wait_for_leaders(topic, 2)
                # The tools wait for few seconds only.
                client.await_transaction_coordinator(topic)

    def tables(self, *arguments: str, about: str = "") -> list[dict[str, str]]:
        """Our table, which is Kafka's. about: only the rows that have this word: the servers are shared."""
        found = []
        for server in self.servers:
            rows = table(self.steps.tools.run(server, TRANSACTIONS, *arguments))
            found.append(sorted((row for row in rows if about in str(row.values())), key=str))
        ours, theirs = found
        assert ours == theirs, arguments
        return ours


@pytest.fixture
def transaction_steps(same_steps: SameSteps, topic: str) -> TransactionSteps:
    return TransactionSteps(same_steps, topic)


def test_transactions_are_listed_and_described(transaction_steps: TransactionSteps, topic: str) -> None:
    steps = transaction_steps
    place = ("--topic", topic, "--partition", "0")
    with ExitStack() as stack:
        producers = [
            stack.enter_context(Producer(server.bootstrap_servers, transactional_id=topic)) for server in steps.servers
        ]
        for producer in producers:
            producer.init_transactions()
        assert [row["TransactionState"] for row in steps.tables("list", about=topic)] == ["Empty"]
        (described,) = steps.tables("describe", "--transactional-id", topic)
        assert described["CurrentTransactionStartTimeMs"] == "None"
        for commits in (True, False):
            for producer in producers:
                producer.begin_transaction()
                for partition in (0, 1):
                    producer.send(topic, b"value", partition=partition).result()
            assert [row["TransactionState"] for row in steps.tables("list", about=topic)] == ["Ongoing"]
            assert steps.tables("list", "--duration-filter", "3600000", about=topic) == []
            (described,) = steps.tables("describe", "--transactional-id", topic)
            assert described["TopicPartitions"] == f"{topic}-0,{topic}-1"
            (described,) = steps.tables("describe-producers", *place)
            assert described["CurrentTransactionStartOffset"] == ("0" if commits else "2")
            steps.tables("describe-producers", *place, "--broker-id", "0")
            assert steps.tables("find-hanging", "--topic", topic, "--max-transaction-timeout", "0") == []
            for producer in producers:
                producer.commit_transaction() if commits else producer.abort_transaction()
            for server, producer in zip(steps.servers, producers, strict=True):
                wait_for_markers(server.bootstrap_servers, [TopicPartition(topic, number) for number in (0, 1)])
                # The next transaction begins when the last one is complete.
                if commits:
                    continue
                producer.begin_transaction()
                producer.send(topic, b"last", partition=1).result()
            (described,) = steps.tables("describe-producers", *place)
            assert described["CurrentTransactionStartOffset"] == "None"
        for producer in producers:
            producer.commit_transaction()
        for server in steps.servers:
            _await_state(steps, server, "CompleteCommit")
        (described,) = steps.tables("describe", "--transactional-id", topic)
        assert described["TransactionState"] == "CompleteCommit"


def _await_state(steps: TransactionSteps, server: Server, state: str) -> None:
    """Wait until the coordinator shows a state: it answers the end of a transaction before that is complete."""
    deadline = time.monotonic() + SECONDS
    while True:
        (row,) = table(steps.steps.tools.run(server, TRANSACTIONS, "describe", "--transactional-id", steps.topic))
        if row["TransactionState"] == state:
            return
        assert time.monotonic() < deadline, row


def test_ids_and_offsets_that_do_not_exist(transaction_steps: TransactionSteps, topic: str) -> None:
    run = transaction_steps.steps.run
    unknown = run(TRANSACTIONS, "describe", "--transactional-id", f"{topic}-unknown")
    assert "Failed to describe transaction state" in unknown.text
    missing = run(TRANSACTIONS, "abort", "--topic", topic, "--partition", "0", "--start-offset", "7")
    assert "Could not find any open transactions starting at offset 7" in missing.text
    run(TRANSACTIONS, "abort", "--topic", topic, "--partition", "0")
    run(TRANSACTIONS, "find-hanging")
    run(TRANSACTIONS, "find-hanging", "--broker-id", "0", "--partition", "0")


@pytest.fixture
def without_verification(same_steps: SameSteps) -> Iterator[None]:
    """Inside, batches of transactions are appended without a question to the coordinator."""
    everywhere = ("--entity-type", "brokers", "--entity-default")
    for server in (same_steps.ours, same_steps.theirs):
        changed = same_steps.tools.run(
            server, "kafka-configs", "--alter", *everywhere, "--add-config", f"{VERIFICATION}=false"
        )
        assert changed.status == 0, changed.text
    yield
    for server in (same_steps.ours, same_steps.theirs):
        same_steps.tools.run(server, "kafka-configs", "--alter", *everywhere, "--delete-config", VERIFICATION)


@pytest.mark.usefixtures("without_verification")
def test_a_hanging_transaction_is_found_and_aborted(transaction_steps: TransactionSteps, topic: str) -> None:
    steps = transaction_steps
    begun_ms = int(time.time() * 1000) - 20 * MINUTE_MS
    for server in steps.servers:
        with RawClient(server) as client:
            client.produce_values(topic, b"before", partition=1)
            deadline = time.monotonic() + SECONDS
            # A change of settings is answered before it counts.
            while _append_in_transaction(client, topic, 1, begun_ms) != ErrorCode.NONE:
                assert time.monotonic() < deadline
                time.sleep(0.1)
    (found,) = steps.tables("find-hanging", "--topic", topic)
    assert (found["Partition"], found["StartOffset"], found["ProducerEpoch"]) == ("1", "1", "3")
    assert [row for row in steps.tables("find-hanging", "--broker-id", "0") if row["Topic"] == topic] == [found]
    assert steps.tables("find-hanging", "--topic", topic, "--partition", "1") == [found]
    assert steps.tables("find-hanging", "--topic", topic, "--partition", "0") == []
    assert steps.tables("find-hanging", "--topic", topic, "--max-transaction-timeout", "90") == []
    place = ("--topic", topic, "--partition", "1")
    aborted = steps.steps.run(TRANSACTIONS, "abort", *place, "--start-offset", "1")
    assert aborted.status == 0, aborted.text
    assert steps.tables("find-hanging", "--topic", topic) == []
    (described,) = steps.tables("describe-producers", *place)
    assert described["CurrentTransactionStartOffset"] == "None"
    steps.steps.run(TRANSACTIONS, "abort", *place, "--start-offset", "1")


def _append_in_transaction(client: RawClient, topic: str, partition: int, timestamp_ms: int) -> ErrorCode:
    """Append a batch of a transaction that no coordinator knows; the answer."""
    batch = make_batch(
        [b"lost"],
        timestamp_ms=timestamp_ms,
        producer_id=LOST_PRODUCER_ID,
        producer_epoch=3,
        base_sequence=0,
        is_transactional=True,
    )
    request = client.produce_request(topic, batch, 9, -1, partition)
    request.transactional_id = "lost"
    ((answer,),) = (each.partition_responses for each in client.call(request, 9, ProduceResponse).responses)
    return ErrorCode(answer.error_code)
