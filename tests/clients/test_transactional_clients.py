"""Transactional producers of other libraries: commit, abort, fence; judged by what confluent-kafka reads.

On our broker also at transaction.version 2: libraries that do not speak it go on as before.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable, Iterator
from typing import NamedTuple

import aiokafka
import aiokafka.errors
import confluent_kafka
import kafka
import kafka.errors
import pytest

from barnabas.clients.admin import Admin, FeatureUpdate
from barnabas.protocol.topic_partition import TopicPartition
from tests.groups import member_builds
from tests.support.maven import counterparts_needed
from tests.support.server_fixtures import AGAINST_KAFKA, MODES, Server, make_server

SECONDS = 60
Transaction = tuple[bool, list[bytes]]
"""Whether it is committed, and its values."""
Write = Callable[[str, str, str, list[Transaction]], None]
END = {True: "commit", False: "abort"}


class Move(NamedTuple):
    """A transaction that commits an offset, and writes it."""

    is_commit: bool
    offset: int


MoveOffsets = Callable[[str, str, str, str, list[Move]], None]
"""Of servers, the name of the group and transactional id, source, target, and transactions."""


AT_2 = "inline, transaction.version 2"


@pytest.fixture(scope="module", params=MODES if AGAINST_KAFKA else (*MODES, AT_2))
def servers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    mode = "inline" if request.param == AT_2 else request.param
    server: Server = make_server(mode, tmp_path_factory.mktemp("transactional"))
    with server.running():
        bootstrap = f"{server.host}:{server.port}"
        if request.param == AT_2:
            with Admin(bootstrap) as admin:
                admin.update_features({"transaction.version": FeatureUpdate(2)})
        yield bootstrap


def confluent(servers: str, transactional_id: str, topic: str, transactions: list[Transaction]) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": servers, "transactional.id": transactional_id})
    producer.init_transactions(SECONDS)
    for is_commit, values in transactions:
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, value)
        if is_commit:
            producer.commit_transaction(SECONDS)
        else:
            producer.flush(SECONDS)
            producer.abort_transaction(SECONDS)


def kafka_python(servers: str, transactional_id: str, topic: str, transactions: list[Transaction]) -> None:
    producer = kafka.KafkaProducer(bootstrap_servers=servers, transactional_id=transactional_id)
    producer.init_transactions()
    for is_commit, values in transactions:
        producer.begin_transaction()
        for value in values:
            producer.send(topic, value)
        if is_commit:
            producer.commit_transaction()
        else:
            producer.flush()
            producer.abort_transaction()
    producer.close()


def aio_kafka(servers: str, transactional_id: str, topic: str, transactions: list[Transaction]) -> None:
    async def write() -> None:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=servers, transactional_id=transactional_id)
        await producer.start()
        for is_commit, values in transactions:
            await producer.begin_transaction()
            for value in values:
                await producer.send_and_wait(topic, value)
            await (producer.commit_transaction() if is_commit else producer.abort_transaction())
        await producer.stop()

    asyncio.run(write())


def kafkajs(servers: str, transactional_id: str, topic: str, transactions: list[Transaction]) -> None:
    with counterparts_needed():
        program = member_builds.kafkajs_transactional_writer()
    _run_writer(program, servers, transactional_id, topic, transactions)


def franz_go(servers: str, transactional_id: str, topic: str, transactions: list[Transaction]) -> None:
    with counterparts_needed():
        program = member_builds.franz_go_transactional_writer()
    _run_writer(program, servers, transactional_id, topic, transactions)


def _run_writer(
    program: list[str], servers: str, transactional_id: str, topic: str, transactions: list[Transaction]
) -> None:
    ends = [f"{END[is_commit]}={b','.join(values).decode()}" for is_commit, values in transactions]
    _run([*program, servers, transactional_id, topic, *ends])


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=2 * SECONDS, check=False)
    assert done.returncode == 0, done.stderr


LIBRARIES = [confluent, kafka_python, aio_kafka, kafkajs, franz_go]


def read(servers: str, topic: str, isolation: str, count: int) -> list[bytes]:
    """Read `count` values from the beginning, and whatever else comes at once."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": f"{topic}-{isolation}",
            "auto.offset.reset": "earliest",
            "isolation.level": isolation,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, confluent_kafka.OFFSET_BEGINNING)])
    values: list[bytes] = []
    is_ended = False
    while not (is_ended and len(values) >= count):
        message = consumer.poll(SECONDS)
        assert message is not None, values
        is_ended = message.error() is not None
        if not is_ended:
            values.append(message.value() or b"")
    consumer.close()
    return values


def create(servers: str, topic: str) -> None:
    admin = kafka.KafkaAdminClient(bootstrap_servers=servers)
    admin.create_topics([kafka.admin.NewTopic(topic, 1, 1)])
    admin.close()


@pytest.mark.parametrize("write", LIBRARIES)
def test_committed_records_are_read_and_aborted_ones_are_not(servers: str, write: Write) -> None:
    topic = f"ends-{write.__name__}"
    create(servers, topic)
    write(servers, topic, topic, [(True, [b"a", b"b"]), (False, [b"lost"]), (True, [b"c"]), (False, [b"lost-too"])])
    assert read(servers, topic, "read_committed", 3) == [b"a", b"b", b"c"]
    assert read(servers, topic, "read_uncommitted", 5) == [b"a", b"b", b"lost", b"c", b"lost-too"]


@pytest.mark.parametrize("write", LIBRARIES)
def test_a_second_producer_fences_the_first_and_aborts_its_transaction(servers: str, write: Write) -> None:
    topic = f"fenced-{write.__name__}"
    create(servers, topic)
    first = confluent_kafka.Producer({"bootstrap.servers": servers, "transactional.id": topic})
    first.init_transactions(SECONDS)
    first.begin_transaction()
    first.produce(topic, b"of the zombie")
    first.flush(SECONDS)
    write(servers, topic, topic, [(True, [b"of its successor"])])
    with pytest.raises(confluent_kafka.KafkaException) as failure:
        first.commit_transaction(SECONDS)
    assert failure.value.args[0].code() == confluent_kafka.KafkaError._FENCED
    assert read(servers, topic, "read_committed", 1) == [b"of its successor"]


def confluent_moves(servers: str, name: str, source: str, target: str, moves: list[Move]) -> None:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": name, "enable.auto.commit": False})
    consumer.subscribe([source])
    while not consumer.assignment():
        consumer.poll(0.1)
    producer = confluent_kafka.Producer({"bootstrap.servers": servers, "transactional.id": name})
    producer.init_transactions(SECONDS)
    for is_commit, offset in moves:
        producer.begin_transaction()
        producer.produce(target, b"%d" % offset)
        places = [confluent_kafka.TopicPartition(source, 0, offset)]
        producer.send_offsets_to_transaction(places, consumer.consumer_group_metadata(), SECONDS)
        if is_commit:
            producer.commit_transaction(SECONDS)
        else:
            producer.abort_transaction(SECONDS)
    consumer.close()


def kafka_python_moves(servers: str, name: str, source: str, target: str, moves: list[Move]) -> None:
    consumer = kafka.KafkaConsumer(
        source, bootstrap_servers=servers, group_id=name, enable_auto_commit=False, auto_offset_reset="earliest"
    )
    # One long poll, which ends with the first record: kafka-python may lose a join that outlives the poll() it began in
    # (HUNG_SECONDS in tests/groups/members/kafka_python_member.py).
    assert consumer.poll(SECONDS * 1000)
    producer = kafka.KafkaProducer(bootstrap_servers=servers, transactional_id=name)
    producer.init_transactions()
    for is_commit, offset in moves:
        producer.begin_transaction()
        producer.send(target, b"%d" % offset)
        offsets = {kafka.TopicPartition(source, 0): kafka.OffsetAndMetadata(offset, "", -1)}
        producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
        if is_commit:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    producer.close()
    consumer.close()


def aio_kafka_moves(servers: str, name: str, source: str, target: str, moves: list[Move]) -> None:
    async def move() -> None:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=servers, transactional_id=name)
        await producer.start()
        for is_commit, offset in moves:
            await producer.begin_transaction()
            await producer.send_and_wait(target, b"%d" % offset)
            await producer.send_offsets_to_transaction({aiokafka.TopicPartition(source, 0): offset}, name)
            await (producer.commit_transaction() if is_commit else producer.abort_transaction())
        await producer.stop()

    asyncio.run(move())


def kafkajs_moves(servers: str, name: str, source: str, target: str, moves: list[Move]) -> None:
    with counterparts_needed():
        program = member_builds.kafkajs_offset_mover()
    _run_mover(program, servers, name, source, target, moves)


def franz_go_moves(servers: str, name: str, source: str, target: str, moves: list[Move]) -> None:
    with counterparts_needed():
        program = member_builds.franz_go_offset_mover()
    _run_mover(program, servers, name, source, target, moves)


def _run_mover(program: list[str], servers: str, name: str, source: str, target: str, moves: list[Move]) -> None:
    _run([*program, servers, name, source, target, *[f"{END[is_commit]}={offset}" for is_commit, offset in moves]])


@pytest.mark.parametrize(
    "commit_offsets", [confluent_moves, kafka_python_moves, aio_kafka_moves, kafkajs_moves, franz_go_moves]
)
def test_offsets_are_committed_with_the_transaction(servers: str, commit_offsets: MoveOffsets) -> None:
    name = commit_offsets.__name__
    source, target = f"{name}-source", f"{name}-target"
    create(servers, source)
    create(servers, target)
    confluent(servers, source, source, [(True, [b"1", b"2", b"3"])])
    with Admin(servers) as admin:
        place = TopicPartition(source, 0)
        commit_offsets(servers, name, source, target, [Move(True, 1), Move(False, 2)])
        assert admin.list_group_offsets(name, [place], require_stable=True)[place].offset == 1
        commit_offsets(servers, name, source, target, [Move(False, 2), Move(True, 3)])
        assert admin.list_group_offsets(name, [place], require_stable=True)[place].offset == 3
    assert read(servers, target, "read_committed", 2) == [b"1", b"3"]
