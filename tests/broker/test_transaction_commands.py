"""`barnabas transactions` on a broker with an open transaction."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from barnabas.cli.main import barnabas
from barnabas.clients.admin import Admin, NewTopic
from barnabas.clients.consumer import Consumer
from barnabas.clients.producer import Producer, ProducerFenced
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.produce import ProduceResponse
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.testing import BrokerProcess, broker
from tests.support.raw_client import RawClient, make_batch
from tests.support.server_fixtures import AGAINST_KAFKA
from tests.support.transaction_markers import wait_for_markers

pytestmark = pytest.mark.skipif(AGAINST_KAFKA, reason="the broker of the test kit is ours")


@pytest.fixture
def bootstrap() -> Iterator[str]:
    with broker() as process:
        with Admin(process.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("t", 1, 1)])
        yield process.bootstrap_servers


def run(bootstrap: str, *arguments: str) -> Result:
    return CliRunner().invoke(
        barnabas, ["transactions", *arguments], env={"BARNABAS_BOOTSTRAP_SERVER": bootstrap}, catch_exceptions=False
    )


def rows(result: Result) -> list[list[str]]:
    """The cells of a table in a pipe, without the columns' names."""
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    return [[cell.rpartition(" ")[2] for cell in line.split("\t")[1:]] for line in lines]


def test_an_open_transaction_is_shown_and_ended(bootstrap: str) -> None:
    with Producer(bootstrap, transactional_id="billing") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("t", b"1").result()
        ((name, _, producer_id, state),) = rows(run(bootstrap, "list", "--state", "Ongoing"))
        assert (name, state) == ("billing", "Ongoing")
        assert rows(run(bootstrap, "list", "--state", "CompleteCommit")) == []
        ((_, described_id, _, state, timeout, started, partitions),) = rows(run(bootstrap, "describe", "billing"))
        assert (described_id, state, timeout, partitions) == (producer_id, "Ongoing", "60000", "t-0")
        assert started.endswith("+00:00")
        ((seen_id, *_, begins),) = rows(run(bootstrap, "describe-producers", "t", "0"))
        assert (seen_id, begins) == (producer_id, "0")
        missing = run(bootstrap, "abort", "t", "0", "--start-offset", "7")
        assert missing.exit_code != 0
        assert "no transaction of t-0 begins at offset 7" in missing.output
        aborted = run(bootstrap, "abort", "t", "0", "--start-offset", "0")
        assert aborted.stdout == f"t-0\tproducer {producer_id}\taborted from 0\n"
        assert rows(run(bootstrap, "describe-producers", "t", "0"))[0][-1] == "none"
        ended = run(bootstrap, "force-terminate", "billing")
        assert ended.stdout.startswith(f"billing\tproducer {producer_id}\tepoch ")
        with pytest.raises(ProducerFenced):
            producer.commit_transaction()


def test_an_unknown_id_is_an_error_of_one_line(bootstrap: str) -> None:
    unknown = run(bootstrap, "describe", "nothing")
    assert unknown.exit_code == 1
    assert "TRANSACTIONAL_ID_NOT_FOUND" in unknown.output
    assert len(unknown.output.splitlines()) == 1


MINUTE_MS = 60_000
PARTITIONS = {"t": 2, "other": 1}


@pytest.fixture
def trusting_broker() -> Iterator[BrokerProcess]:
    """A broker that appends transactional batches without asking the coordinator: transactions can hang."""
    with broker(transaction_partition_verification_enable=False) as process:
        with Admin(process.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(name, count, 1) for name, count in PARTITIONS.items()])
        yield process


def append_in_transaction(
    process: BrokerProcess, topic: str, partition: int, producer_id: int, *, minutes_ago: float
) -> int:
    """Append a batch of a transaction that no coordinator knows. Returns its offset."""
    batch = make_batch(
        [b"lost"],
        timestamp_ms=int(time.time() * 1000 - minutes_ago * MINUTE_MS),
        producer_id=producer_id,
        producer_epoch=3,
        base_sequence=0,
        is_transactional=True,
    )
    with RawClient(process) as client:
        client.wait_for_leaders(topic, PARTITIONS[topic])
        request = client.produce_request(topic, batch, 9, -1, partition)
        request.transactional_id = "lost"
        ((answer,),) = (each.partition_responses for each in client.call(request, 9, ProduceResponse).responses)
        assert answer.error_code == ErrorCode.NONE
        return answer.base_offset


def test_a_hanging_transaction_is_found_and_aborted(trusting_broker: BrokerProcess) -> None:
    bootstrap = trusting_broker.bootstrap_servers
    long_ago_ms = int(time.time() * 1000) - 200 * MINUTE_MS
    with Producer(bootstrap, transactional_id="billing") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        # Its coordinator knows this transaction, and will end it: it does not hang, however old it is.
        producer.send("t", b"1", partition=0, timestamp_ms=long_ago_ms).result()
        with Admin(bootstrap) as admin:
            ((known, *_),) = admin.list_transactions()
            known_producer = admin.describe_transactions([known])[known].producer_id
        assert rows(run(bootstrap, "find-hanging", "--topic", "t")) == []
        start = append_in_transaction(trusting_broker, "t", 1, 771, minutes_ago=100)
        append_in_transaction(trusting_broker, "other", 0, 772, minutes_ago=100)
        append_in_transaction(trusting_broker, "t", 0, 773, minutes_ago=0)
        # The transaction of a known producer hangs too, in a partition that it has not added.
        append_in_transaction(trusting_broker, "other", 0, known_producer, minutes_ago=100)

        def found(*arguments: str) -> set[tuple[str, str, int]]:
            result = rows(run(bootstrap, "find-hanging", *arguments))
            assert all(int(minutes) >= 100 for *_, minutes in result)
            return {(topic, partition, int(producer_id)) for topic, partition, producer_id, *_ in result}

        in_t, in_other = ("t", "1", 771), {("other", "0", 772), ("other", "0", known_producer)}
        assert found("--topic", "t") == {in_t}
        assert found("--topic", "t", "--partition", "1") == {in_t}
        assert found("--topic", "t", "--partition", "0") == set()
        assert found("--broker-id", "0") == {in_t} | in_other
        assert found("--broker-id", "0", "--topic", "other") == in_other
        assert found("--broker-id", "0", "--max-transaction-timeout", "600") == set()
        (hanging,) = rows(run(bootstrap, "find-hanging", "--topic", "t"))
        assert hanging[3:6] == ["3", "-1", str(start)]

        with Consumer(bootstrap, isolation_level="read_committed") as consumer:
            (stable,) = consumer.end_offsets([TopicPartition("t", 1)]).values()
            assert stable == start
            aborted = run(bootstrap, "abort", "t", "1", "--start-offset", str(start))
            assert aborted.stdout == f"t-1\tproducer 771\taborted from {start}\n"
            assert found("--topic", "t") == set()
            (stable,) = consumer.end_offsets([TopicPartition("t", 1)]).values()
            assert stable == start + 2
        producer.commit_transaction()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "needs --topic or --broker-id"),
        (("--broker-id", "0", "--partition", "1"), "--partition needs --topic"),
    ],
)
def test_a_search_for_hanging_transactions_has_limits(arguments: tuple[str, ...], message: str) -> None:
    refused = run("localhost:1", "find-hanging", *arguments)
    assert refused.exit_code == 2
    assert message in refused.output


def test_the_producers_of_one_broker(bootstrap: str) -> None:
    with Producer(bootstrap) as producer:
        producer.send("t", b"1").result()
    asked = rows(run(bootstrap, "describe-producers", "t", "0", "--broker-id", "0"))
    assert asked == rows(run(bootstrap, "describe-producers", "t", "0"))
    assert len(asked) == 1
    missing = run(bootstrap, "describe-producers", "t", "7", "--broker-id", "0")
    assert missing.exit_code == 1
    assert "UNKNOWN_TOPIC_OR_PARTITION" in missing.output


def dump(*arguments: str) -> str:
    """What `barnabas log dump` prints; it finds no damage."""
    shown = CliRunner().invoke(barnabas, ["log", "dump", *arguments], catch_exceptions=False)
    assert shown.exit_code == 0, shown.output
    return shown.stdout


def test_the_files_of_transactions_are_shown(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with broker(data_dir=str(data)) as process:
        bootstrap = process.bootstrap_servers
        with Admin(bootstrap) as admin:
            admin.create_topics([NewTopic("t", 1, 1)])
        with Producer(bootstrap, transactional_id="billing") as producer:
            producer.init_transactions()
            producer.begin_transaction()
            producer.send("t", b"1").result()
            producer.commit_transaction()
            wait_for_markers(bootstrap, [TopicPartition("t", 0)])
            producer.begin_transaction()
            producer.send("t", b"2").result()
            producer.abort_transaction()
            wait_for_markers(bootstrap, [TopicPartition("t", 0)])
    (log,) = (path for path in data.glob("__transaction_state-*/*.log") if path.stat().st_size)
    stored = re.findall(
        r"key: transaction_metadata::transactionalId=billing payload: producerId:\d+,producerEpoch:0,"
        r"state=(\w+),partitions=\[(.*?)\],txnLastUpdateTimestamp=\d+,txnTimeoutMs=60000",
        dump(str(log), "--transaction-log-decoder"),
    )
    begun_and_decided = [("Empty", ""), ("Ongoing", "t-0"), ("PrepareCommit", "t-0"), ("CompleteCommit", "")]
    # The broker may have stopped before it stored that the second transaction is complete.
    assert stored[:4] == begun_and_decided
    assert stored[4:6] == [("Ongoing", "t-0"), ("PrepareAbort", "t-0")]
    segment = str(data / "t-0" / f"{0:020d}")
    shown = dump(f"{segment}.log", "--deep-iteration")
    markers = re.findall(r"endTxnMarker: (\w+) coordinatorEpoch: 0$", shown, re.MULTILINE)
    assert markers == ["COMMIT", "ABORT"]
    assert "firstOffset: 2 lastOffset: 3" in dump(f"{segment}.txnindex")
    assert "currentTxnFirstOffset: OptionalLong.empty" in dump(str(data / "t-0" / f"{4:020d}.snapshot"))
