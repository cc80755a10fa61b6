"""Our transactional producer: commits, aborts, fencing, offsets of groups; readers of committed records see just those.

The coordinator is ours, at both levels of transaction.version, and that of Apache Kafka 3.9 and 4, which is at level 2.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import TopicPartition as ConfluentPartition

from barnabas.clients.admin import Admin, FeatureUpdate, NewTopic, OpenTransaction
from barnabas.clients.consumer import Consumer, fetch_table
from barnabas.clients.producer import (
    Producer,
    ProducerFenced,
    TransactionAbortable,
    TransactionAborted,
)
from barnabas.clients.values import ConsumerGroupMetadata
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from tests.support.apache_kafka import need_apache_kafka
from tests.support.apache_kafka_4 import need_apache_kafka_4
from tests.support.barnabas_process import BarnabasProcess
from tests.support.server_fixtures import SERVER_PROPERTIES, Server, make_server
from tests.support.server_process import free_port
from tests.support.transaction_markers import wait_for_markers

pytest.importorskip("pyarrow")

pytestmark = pytest.mark.timeout(180)

PATIENCE_MS = 30_000


class Coordinator(NamedTuple):
    """A broker, and the level of transaction.version that it is given; 0: as it comes."""

    mode: str
    level: int = 0

    @property
    def is_version_2(self) -> bool:
        return self.level == 2 or self.mode == "apache-kafka-4"


COORDINATORS = {
    "ours": pytest.param(Coordinator("inline")),
    "ours-at-2": pytest.param(Coordinator("inline", 2)),
    "apache-kafka": pytest.param(Coordinator("apache-kafka"), marks=pytest.mark.java),
    "apache-kafka-4": pytest.param(Coordinator("apache-kafka-4"), marks=pytest.mark.java),
}


@pytest.fixture(scope="module", params=COORDINATORS.values(), ids=list(COORDINATORS))
def coordinator(request: pytest.FixtureRequest) -> Coordinator:
    found: Coordinator = request.param
    if found.mode == "apache-kafka":
        need_apache_kafka()
    elif found.mode == "apache-kafka-4":
        need_apache_kafka_4()
    return found


@pytest.fixture(scope="module")
def bootstrap(coordinator: Coordinator, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    server: Server = make_server(
        coordinator.mode,
        tmp_path_factory.mktemp("transactions"),
        transaction_state_log_num_partitions="3",
        transaction_state_log_replication_factor="1",
        transaction_state_log_min_isr="1",
    )
    with server.running():
        bootstrap = f"{server.host}:{server.port}"
        if coordinator.level:
            with Admin(bootstrap) as admin:
                admin.update_features({"transaction.version": FeatureUpdate(coordinator.level)})
        yield bootstrap


@pytest.fixture
def topic(bootstrap: str) -> str:
    name = f"t-{uuid.uuid4().hex[:8]}"
    with Admin(bootstrap) as admin:
        admin.create_topics([NewTopic(name, num_partitions=2, replication_factor=1)])
    return name


def transactional(bootstrap: str, transactional_id: str, **settings: object) -> Producer:
    return Producer(bootstrap, transactional_id=transactional_id, max_block_ms=PATIENCE_MS, **settings)  # type: ignore[arg-type]


def fail_after(step: Callable[[], object]) -> None:
    """Fail in the block of a transaction, behind a step."""
    step()
    raise ZeroDivisionError


def _ours(bootstrap: str, topic: str, isolation: str) -> list[bytes]:
    partitions = [TopicPartition(topic, number) for number in range(2)]
    with Consumer(bootstrap, isolation_level=isolation, auto_offset_reset="earliest") as consumer:
        consumer.assign(partitions)
        consumer.seek_to_beginning(partitions)
        ends = consumer.end_offsets(partitions)
        values = []
        while any(consumer.position(partition) < ends[partition] for partition in partitions):
            values += [record.value for record in consumer.poll(500)]
    return sorted(value for value in values if value is not None)


def _confluents(bootstrap: str, topic: str) -> list[bytes]:
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": uuid.uuid4().hex,
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
        "enable.auto.commit": False,
    }
    with closing(ConfluentConsumer(settings)) as consumer:
        consumer.assign([ConfluentPartition(topic, number, 0) for number in range(2)])
        values = []
        ended: set[int | None] = set()
        while len(ended) < 2:
            message = consumer.poll(20)
            assert message is not None
            if message.error() is not None:
                ended.add(message.partition())
            else:
                values.append(message.value())
    return sorted(value for value in values if value is not None)


def _tables(bootstrap: str, topic: str) -> list[bytes]:
    fetched = fetch_table(bootstrap, topic, isolation_level="read_committed").column("value").to_pylist()
    with Consumer(bootstrap, isolation_level="read_committed", auto_offset_reset="earliest") as consumer:
        partitions = [TopicPartition(topic, number) for number in range(2)]
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        polled: list[bytes] = []
        while any(consumer.position(partition) < ends[partition] for partition in partitions):
            polled += consumer.poll_table(500).column("value").to_pylist()
    assert sorted(polled) == sorted(fetched)
    return sorted(polled)


def committed(bootstrap: str, topic: str) -> list[bytes]:
    """What readers of committed records see when the transactions of the topic have ended."""
    wait_for_markers(bootstrap, [TopicPartition(topic, number) for number in range(2)])
    return visible(bootstrap, topic)


def visible(bootstrap: str, topic: str) -> list[bytes]:
    """What readers of committed records see now: ours by records, ours by tables, and another library's."""
    ours = _ours(bootstrap, topic, "read_committed")
    assert _confluents(bootstrap, topic) == ours
    assert _tables(bootstrap, topic) == ours
    return ours


def test_commit_abort_and_commit_again(bootstrap: str, topic: str) -> None:
    with transactional(bootstrap, topic) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        futures = [producer.send(topic, b"a%d" % number, partition=number % 2) for number in range(20)]
        producer.commit_transaction()
        # A commit returns when every record has arrived.
        assert all(future.done() and future.exception() is None for future in futures)
        producer.begin_transaction()
        sent = producer.send(topic, b"dropped", partition=0)
        producer.flush()
        sent.result(0)
        producer.abort_transaction()
        with producer.transaction():
            producer.send(topic, b"b", partition=0)
    expected = sorted([b"a%d" % number for number in range(20)] + [b"b"])
    assert committed(bootstrap, topic) == expected
    assert _ours(bootstrap, topic, "read_uncommitted") == sorted([*expected, b"dropped"])


def test_the_waits_of_a_transaction_are_measured(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap, transactional_id=f"waits-{topic}") as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send(topic, b"v")
        producer.begin_transaction()
        producer.abort_transaction()
        waited = {metric.name for metric, value in producer.metrics().items() if value > 0}
    calls = ("txn-init", "txn-begin", "txn-commit", "txn-abort", "metadata-wait")
    assert {f"{call}-time-ns-total" for call in calls} <= waited


def test_each_end_raises_the_epoch_of_a_producer_of_version_2(
    bootstrap: str, topic: str, coordinator: Coordinator
) -> None:
    def epoch() -> int:
        with Admin(bootstrap) as admin:
            return admin.describe_transactions([topic])[topic].producer_epoch

    with transactional(bootstrap, topic) as producer:
        producer.init_transactions()
        first = epoch()
        for number in range(3):
            with producer.transaction():
                producer.send(topic, b"%d" % number, partition=0)
        producer.begin_transaction()
        producer.send(topic, b"dropped", partition=1).result()
        producer.abort_transaction()
        # A transaction without a record has no end at the coordinator.
        with producer.transaction():
            pass
        assert committed(bootstrap, topic) == [b"0", b"1", b"2"]
        raised = epoch() - first
        assert raised == 4 if coordinator.is_version_2 else raised == 0


def test_short_transactions_follow_one_another_at_once(bootstrap: str, topic: str) -> None:
    with transactional(bootstrap, topic) as producer:
        producer.init_transactions()
        for number in range(60):
            producer.begin_transaction()
            producer.send(topic, b"%03d" % number, partition=number % 2)
            producer.send(topic, b"%03d" % number, partition=1)
            if number % 3:
                producer.commit_transaction()
            else:
                producer.flush()
                producer.abort_transaction()
    assert committed(bootstrap, topic) == sorted([b"%03d" % number for number in range(60) if number % 3] * 2)


def test_a_producer_follows_an_upgrade_between_two_transactions(tmp_path: Path) -> None:
    server = BarnabasProcess(tmp_path / "upgraded", SERVER_PROPERTIES, port=free_port())
    with server.running():
        bootstrap = f"{server.host}:{server.port}"
        name = "upgraded"
        with Admin(bootstrap) as admin, transactional(bootstrap, name) as producer:
            admin.create_topics([NewTopic(name, 2, 1)])
            producer.init_transactions()
            with producer.transaction():
                producer.send(name, b"old", partition=0)
            admin.update_features({"transaction.version": FeatureUpdate(2)})
            # A client learns of features when it connects.
            server.stop()
            server.start()
            for value in (b"learns", b"new", b"newer"):
                with producer.transaction():
                    producer.send(name, value, partition=1)
            assert committed(bootstrap, name) == [b"learns", b"new", b"newer", b"old"]
            # One for the change itself, and one for each of the last two ends.
            assert admin.describe_transactions([name])[name].producer_epoch == 3


def test_an_abort_drops_what_was_not_sent(bootstrap: str, topic: str) -> None:
    with transactional(bootstrap, topic, linger_ms=60_000) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        future = producer.send(topic, b"lingers", partition=1)
        producer.abort_transaction()
        assert isinstance(future.exception(0), TransactionAborted)
        with producer.transaction():
            pass
    assert _ours(bootstrap, topic, "read_uncommitted") == []


def test_an_exception_in_the_block_aborts(bootstrap: str, topic: str) -> None:
    with transactional(bootstrap, topic) as producer:
        producer.init_transactions()
        with pytest.raises(ZeroDivisionError), producer.transaction():
            fail_after(lambda: producer.send(topic, b"a").result())
        with producer.transaction():
            producer.send(topic, b"b")
    assert committed(bootstrap, topic) == [b"b"]


def test_a_failed_record_spoils_its_transaction_alone(bootstrap: str, topic: str) -> None:
    with transactional(bootstrap, topic) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"first", partition=0)
        too_large = producer.send(topic, b"x" * (1 << 21), partition=0)
        assert isinstance(too_large.exception(0), ApiError)
        with pytest.raises(TransactionAbortable, match="abort_transaction"):
            producer.send(topic, b"second")
        with pytest.raises(TransactionAbortable):
            producer.commit_transaction()
        producer.abort_transaction()
        with producer.transaction():
            producer.send(topic, b"third", partition=0)
    assert committed(bootstrap, topic) == [b"third"]


def test_a_batch_that_the_broker_rejects_raises_the_epoch(bootstrap: str, topic: str) -> None:
    with Admin(bootstrap) as admin:
        admin.create_topics([NewTopic(f"{topic}-small", 1, 1, configs={"max.message.bytes": "2000"})])
    with transactional(bootstrap, topic) as producer:
        producer.init_transactions()
        for _ in range(2):
            producer.begin_transaction()
            producer.send(topic, b"first", partition=0)
            assert producer.send(f"{topic}-small", b"x" * 5_000).exception() is not None
            with pytest.raises(TransactionAbortable, match="MESSAGE_TOO_LARGE"):
                producer.commit_transaction()
            producer.abort_transaction()
            with producer.transaction():
                producer.send(f"{topic}-small", b"fits")
                producer.send(topic, b"second", partition=0)
    assert committed(bootstrap, topic) == [b"second"] * 2


def test_a_second_instance_fences_the_first(bootstrap: str, topic: str) -> None:
    with transactional(bootstrap, topic) as zombie, transactional(bootstrap, topic) as heir:
        zombie.init_transactions()
        zombie.begin_transaction()
        zombie.send(topic, b"zombie", partition=0).result()
        heir.init_transactions()
        with heir.transaction():
            heir.send(topic, b"heir", partition=0)
        with pytest.raises(ProducerFenced, match="taken over"):
            zombie.commit_transaction()
        with pytest.raises(ProducerFenced):
            zombie.begin_transaction()
    assert committed(bootstrap, topic) == [b"heir"]


def test_offsets_are_committed_with_the_transaction(bootstrap: str, topic: str) -> None:
    partition = TopicPartition(topic, 0)
    group = f"g-{topic}"
    with Producer(bootstrap) as plain:
        for number in range(4):
            plain.send(topic, b"%d" % number, partition=0)
    with (
        transactional(bootstrap, topic) as producer,
        Consumer(bootstrap, group_id=group, enable_auto_commit=False, auto_offset_reset="earliest") as consumer,
        Admin(bootstrap) as admin,
    ):
        producer.init_transactions()
        consumer.subscribe([topic])
        while not consumer.poll(500):
            pass
        metadata = consumer.group_metadata()
        with pytest.raises(ZeroDivisionError), producer.transaction():
            fail_after(lambda: producer.send_offsets_to_transaction({partition: 2}, metadata))
        assert admin.list_group_offsets(group, [partition], require_stable=True) == {}
        with producer.transaction():
            producer.send_offsets_to_transaction({partition: 4}, metadata)
        assert admin.list_group_offsets(group, [partition], require_stable=True)[partition].offset == 4
        # A zombie: its generation is over, whatever its transactional id.
        stale = ConsumerGroupMetadata(group, metadata.generation_id - 1, metadata.member_id)
        with pytest.raises(TransactionAbortable, match="no longer a member"), producer.transaction():
            producer.send_offsets_to_transaction({partition: 1}, stale)
        # The producer goes on.
        with producer.transaction():
            producer.send_offsets_to_transaction({partition: 3}, metadata)
        assert admin.list_group_offsets(group, [partition], require_stable=True)[partition].offset == 3


def test_an_administrator_sees_fences_and_ends_transactions(bootstrap: str, topic: str) -> None:
    partition = TopicPartition(topic, 0)
    with transactional(bootstrap, topic) as producer, Admin(bootstrap) as admin:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"open", partition=0).result()
        described = admin.describe_transactions([topic])[topic]
        assert (described.state, described.partitions, described.timeout_ms) == ("Ongoing", (partition,), 60_000)
        assert described.start_time_ms is not None
        (listed,) = admin.list_transactions(states=["Ongoing"], producer_ids=[described.producer_id])
        assert (listed.transactional_id, listed.producer_id) == (topic, described.producer_id)
        assert admin.list_transactions(producer_ids=[described.producer_id], longer_than_ms=3_600_000) == []
        (state,) = admin.describe_producers([partition])[partition]
        assert state.current_transaction_start_offset == 0
        assert visible(bootstrap, topic) == []
        # The marker alone ends the transaction in the partition; the coordinator does not learn of it.
        admin.abort_transaction(
            OpenTransaction(partition, state.producer_id, state.producer_epoch, state.coordinator_epoch)
        )
        (state,) = admin.describe_producers([partition])[partition]
        assert state.current_transaction_start_offset == -1
        fenced = admin.fence_producers([topic])[topic]
        assert fenced.producer_id == described.producer_id
        assert fenced.epoch > described.producer_epoch
        with pytest.raises(ProducerFenced):
            producer.commit_transaction()
        with pytest.raises(ApiError) as unknown:
            admin.describe_transactions(["no such id"])
        assert unknown.value.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert committed(bootstrap, topic) == []


@pytest.mark.parametrize("commit", [True, False])
def test_another_client_ends_a_prepared_transaction(
    bootstrap: str, topic: str, commit: bool, coordinator: Coordinator
) -> None:
    producer = transactional(bootstrap, topic)
    producer.init_transactions()
    with pytest.raises(RuntimeError, match="outside of a transaction"):
        producer.prepare_transaction()
    producer.begin_transaction()
    producer.send(topic, b"prepared", partition=0)
    prepared = producer.prepare_transaction()
    producer.abort()
    with Admin(bootstrap) as admin:
        # Once more, as after an answer that was lost.
        for _ in range(2):
            admin.end_transaction(prepared, commit=commit)
        with pytest.raises(ApiError) as other:
            admin.end_transaction(prepared, commit=not commit)
        assert other.value.code is ErrorCode.INVALID_TXN_STATE
        ended = admin.describe_transactions([topic])[topic]
        # The end raises the epoch, as the producer's own would.
        assert ended.producer_epoch == prepared.producer_epoch + (1 if coordinator.is_version_2 else 0)
    assert committed(bootstrap, topic) == ([b"prepared"] if commit else [])


def test_a_prepared_transaction_of_a_fenced_producer_is_aborted(bootstrap: str, topic: str) -> None:
    producer = transactional(bootstrap, topic)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(topic, b"prepared", partition=0)
    prepared = producer.prepare_transaction()
    producer.abort()
    with transactional(bootstrap, topic) as successor, Admin(bootstrap) as admin:
        successor.init_transactions()
        with pytest.raises(ApiError) as fenced:
            admin.end_transaction(prepared, commit=True)
        assert fenced.value.code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
    assert committed(bootstrap, topic) == []


def test_close_aborts_an_open_transaction(bootstrap: str, topic: str) -> None:
    producer = transactional(bootstrap, topic)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(topic, b"open", partition=0).result()
    producer.close()
    assert committed(bootstrap, topic) == []


def test_a_transactional_id_may_have_32_kib(bootstrap: str, topic: str) -> None:
    # The oldest request that names it, and the record of the transaction, have 16 bits for its length.
    name = topic + "x" * (32_767 - len(topic))
    for value in (b"first", b"second"):
        with transactional(bootstrap, name) as producer:
            producer.init_transactions()
            with producer.transaction():
                producer.send(topic, value, partition=0)
    assert committed(bootstrap, topic) == [b"first", b"second"]
    with Admin(bootstrap) as admin:
        assert admin.describe_transactions([name])[name].timeout_ms == 60_000


def test_wrong_use_is_an_error_and_harms_nothing(bootstrap: str, topic: str) -> None:
    with transactional(bootstrap, topic) as producer:
        with pytest.raises(RuntimeError, match="not initialized"):
            producer.begin_transaction()
        producer.init_transactions()
        with pytest.raises(RuntimeError):
            producer.init_transactions()
        with pytest.raises(RuntimeError, match="outside of a transaction"):
            producer.send(topic, b"outside")
        with pytest.raises(RuntimeError):
            producer.commit_transaction()
        with producer.transaction():
            with pytest.raises(RuntimeError):
                producer.begin_transaction()
            producer.send(topic, b"inside")
    assert committed(bootstrap, topic) == [b"inside"]


def test_a_wrong_timeout_is_fatal_at_once(bootstrap: str, topic: str) -> None:
    with (
        transactional(bootstrap, topic, transaction_timeout_ms=2**31 - 1) as producer,
        pytest.raises(Exception, match="transaction timeout") as failure,
    ):
        producer.init_transactions()
    cause = failure.value.__cause__
    assert isinstance(cause, ApiError)
    assert cause.code is ErrorCode.INVALID_TRANSACTION_TIMEOUT
