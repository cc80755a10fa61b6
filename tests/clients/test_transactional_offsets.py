"""Consume, transform, produce, exactly once: confluent-kafka commits the offsets of its group in its transactions.

Readers of other libraries judge: kafka-python reads what was produced, as a reader of committed records.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from kafka import KafkaConsumer
from kafka.structs import TopicPartition as Place

from barnabas.clients.admin import Admin, NewTopic
from barnabas.protocol.topic_partition import TopicPartition as OurPlace
from tests.support.server_fixtures import MODES, Server, make_server
from tests.support.transaction_markers import wait_for_markers

SECONDS = 30
RECORDS = 40


@pytest.fixture(scope="module", params=MODES)
def transactional_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = make_server(
        request.param,
        tmp_path_factory.mktemp("exactly-once"),
        transaction_state_log_num_partitions="3",
        transaction_state_log_replication_factor="1",
        transaction_state_log_min_isr="1",
    )
    with server.running():
        yield server


class Application:
    """Reads `source`, and writes the values in capitals to `<source>-out`; its name is its group and its id."""

    def __init__(self, bootstrap: str, source: str, name: str) -> None:
        self.out = f"{source}-out"
        consumer_settings = {
            "bootstrap.servers": bootstrap,
            "group.id": name,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
        self.consumer = Consumer(consumer_settings)
        self.consumer.subscribe([source])
        self.producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, "log_level": 0})
        self.producer.init_transactions(SECONDS)

    def read(self, count: int) -> list[Message]:
        """Read the next records."""
        found: list[Message] = []
        while len(found) < count:
            messages = self.consumer.consume(count - len(found), SECONDS)
            assert messages, f"{len(found)} of {count} records came"
            for message in messages:
                assert message.error() is None
            found += messages
        return found

    def transform(self, messages: list[Message], *, commits: bool) -> None:
        """Write the values, and the offsets behind them, in one transaction."""
        self.producer.begin_transaction()
        last: dict[tuple[str, int], int] = {}
        for message in messages:
            source, partition, offset = message.topic(), message.partition(), message.offset()
            assert source is not None
            assert partition is not None
            assert offset is not None
            self.producer.produce(self.out, (message.value() or b"").upper(), partition=partition)
            last[source, partition] = offset + 1
        places = [TopicPartition(*place, offset) for place, offset in last.items()]
        self.producer.send_offsets_to_transaction(places, self.consumer.consumer_group_metadata(), SECONDS)
        if commits:
            self.producer.commit_transaction(SECONDS)
        else:
            self.producer.flush(SECONDS)
            self.producer.abort_transaction(SECONDS)

    def committed(self) -> int:
        """The sum of the group's offsets: the number of records that it is done with."""
        places = [TopicPartition(self.out.removesuffix("-out"), partition) for partition in (0, 1)]
        return sum(max(place.offset, 0) for place in self.consumer.committed(places, SECONDS))


def read_committed(bootstrap: str, topic: str) -> list[bytes]:
    """Every value of the topic that a reader of committed records sees, sorted. Waits for open transactions."""
    wait_for_markers(bootstrap, [OurPlace(topic, partition) for partition in (0, 1)])
    with closing(
        KafkaConsumer(bootstrap_servers=bootstrap, isolation_level="read_committed", auto_offset_reset="earliest")
    ) as reader:
        places = [Place(topic, partition) for partition in (0, 1)]
        reader.assign(places)
        reader.seek_to_beginning()
        ends = reader.end_offsets(places)
        found: list[bytes] = []
        while any(reader.position(place) < ends[place] for place in places):
            for records in reader.poll(1000).values():
                found += [record.value for record in records]
    return sorted(found)


@pytest.fixture
def bootstrap(transactional_server: Server, topic: str) -> str:
    address = transactional_server.bootstrap_servers
    with Admin(address) as admin:
        admin.create_topics(
            [NewTopic(name, num_partitions=2, replication_factor=1) for name in (topic, f"{topic}-out")]
        )
    producer = Producer({"bootstrap.servers": address})
    for number in range(RECORDS):
        producer.produce(topic, b"value %02d" % number, partition=number % 2)
    assert producer.flush(SECONDS) == 0
    return address


EVERYTHING = sorted(b"VALUE %02d" % number for number in range(RECORDS))


def test_each_record_is_transformed_once(bootstrap: str, topic: str) -> None:
    first = Application(bootstrap, topic, topic)
    done = first.read(10)
    first.transform(done, commits=True)
    assert first.committed() == 10
    lost = first.read(10)
    first.transform(lost, commits=False)
    assert first.committed() == 10, "the offsets of an aborted transaction are no more than its records"
    first.consumer.close()

    second = Application(bootstrap, topic, topic)
    second.transform(second.read(RECORDS - 10), commits=True)
    assert second.committed() == RECORDS
    second.consumer.close()
    assert read_committed(bootstrap, f"{topic}-out") == EVERYTHING


def test_a_zombie_commits_neither_records_nor_offsets(bootstrap: str, topic: str) -> None:
    zombie = Application(bootstrap, topic, topic)
    zombie.read(10)
    zombie.producer.begin_transaction()
    zombie.producer.produce(zombie.out, b"of a zombie", partition=0)
    assert zombie.producer.flush(SECONDS) == 0
    successor = Application(bootstrap, topic, topic)
    places, member = [TopicPartition(topic, 0, 5)], zombie.consumer.consumer_group_metadata()
    with pytest.raises(KafkaException) as fenced:
        zombie.producer.send_offsets_to_transaction(places, member, SECONDS)
    assert fenced.value.args[0].code() in (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH)
    zombie.consumer.close()
    successor.transform(successor.read(RECORDS), commits=True)
    assert successor.committed() == RECORDS
    successor.consumer.close()
    assert read_committed(bootstrap, f"{topic}-out") == EVERYTHING


def test_a_member_that_its_group_has_replaced_commits_no_offsets(bootstrap: str, topic: str) -> None:
    """KIP-447: another transactional id, so only the group can tell that this one is a zombie."""
    application = Application(bootstrap, topic, topic)
    application.read(10)
    stale = application.consumer.consumer_group_metadata()
    application.consumer.close()
    application.producer.begin_transaction()
    places = [TopicPartition(topic, 0, 5)]
    with pytest.raises(KafkaException) as fenced:
        application.producer.send_offsets_to_transaction(places, stale, SECONDS)
    code = fenced.value.args[0].code()
    assert code in (KafkaError.UNKNOWN_MEMBER_ID, KafkaError.ILLEGAL_GENERATION)
    assert fenced.value.args[0].txn_requires_abort()
    application.producer.abort_transaction(SECONDS)
    successor = Application(bootstrap, topic, topic)
    assert successor.committed() == 0
    # Reads first: confluent-kafka 2.16 can deadlock, holding the GIL, where close() meets the first assignment.
    successor.read(RECORDS)
    successor.consumer.close()
