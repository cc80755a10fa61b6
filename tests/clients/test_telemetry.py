"""The telemetry that our clients push (KIP-714) to a broker of Apache Kafka 4, whose plugin decodes it.

The Java clients push to the same plugin: what ours push is named as theirs, of the same kind, with the same attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from barnabas.clients.admin import Admin, ConfigChange, ConfigOperation, ConfigResource, ConfigResourceType, NewTopic
from barnabas.clients.consumer import Consumer
from barnabas.clients.producer import Producer
from tests.clients.each_broker.each_broker import PROPERTIES, eventually, poll_records
from tests.support.apache_kafka import CONSOLE_CONSUMER
from tests.support.apache_kafka_4 import ApacheKafka4, compile_plugin, need_apache_kafka_4, running_tool_4

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(600)]

RECORDS = 3
WAIT_S = 120
INTERVAL_MS = 500
CONSOLE_PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
SENT = "org.apache.kafka.producer.topic.record.send.total"
CONSUMED = "org.apache.kafka.consumer.fetch.manager.records.consumed.total"


class DataPoint(NamedTuple):
    """A line of the plugin's file (TelemetryReceiver.java)."""

    client_id: str
    instance_id: str
    is_terminating: str
    resource: str
    name: str
    kind: str
    attributes: str
    value: str


class Kind(NamedTuple):
    """What the points of a metric have in common, whatever is measured."""

    kind: str
    attributes: frozenset[str]


class Receiver(NamedTuple):
    """The broker, its topic, and the file of what clients have pushed."""

    bootstrap_servers: str
    topic: str
    file: Path

    def points(self, client_id: str) -> list[DataPoint]:
        """Return what a client has pushed until now."""
        lines = self.file.read_text().splitlines() if self.file.exists() else []
        # The last line may not be whole yet.
        split = (tuple(line.split("\t")) for line in lines if line.count("\t") == len(DataPoint._fields) - 1)
        return [point for point in map(DataPoint._make, split) if point.client_id == client_id]

    def wait_for(self, client_id: str, is_there: Callable[[DataPoint], bool]) -> None:
        """Wait until the client has pushed such a point."""
        eventually(lambda: any(map(is_there, self.points(client_id))), bool, WAIT_S)

    def kinds(self, client_id: str) -> dict[str, set[Kind]]:
        """Return the kinds of each metric that a client has pushed."""
        found: dict[str, set[Kind]] = {}
        for point in self.points(client_id):
            found.setdefault(point.name, set()).add(Kind(point.kind, _keys(point.attributes)))
        return found


def _keys(attributes: str) -> frozenset[str]:
    return frozenset(each.partition("=")[0] for each in attributes.split(",") if each)


def _total(points: list[DataPoint], name: str, topic: str) -> float:
    return sum(float(point.value) for point in points if point.name == name and f"topic={topic}" in point.attributes)


@pytest.fixture(scope="module")
def receiver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Receiver]:
    need_apache_kafka_4()
    directory = tmp_path_factory.mktemp("telemetry")
    plugins, file, topic = directory / "plugins", directory / "points.tsv", "measured"
    compile_plugin(Path(__file__).with_name("TelemetryReceiver.java"), plugins)
    plugin = {"metric.reporters": "TelemetryReceiver", "telemetry.receiver.file": str(file)}
    broker = ApacheKafka4(directory, PROPERTIES | plugin, plugins=plugins)
    with broker.running(), Admin(broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(topic, 1, 1)])
        wanted = {"metrics": "*", "interval.ms": str(INTERVAL_MS)}
        admin.incremental_alter_configs(
            ConfigResource(ConfigResourceType.CLIENT_METRICS, "all"),
            [ConfigChange(name, ConfigOperation.SET, value) for name, value in wanted.items()],
        )
    # The broker may take the subscription over after its answer, and tells clients meanwhile to ask in five minutes. A
    # broker that starts has it before it serves clients.
    with broker.running():
        yield Receiver(broker.bootstrap_servers, topic, file)


def test_what_a_producer_pushes_is_what_it_sent_named_as_javas(receiver: Receiver) -> None:
    with Producer(receiver.bootstrap_servers, client_id="our-producer") as producer:
        for _ in range(RECORDS):
            producer.send(receiver.topic, b"v").result(WAIT_S)
        instance_id = producer.client_instance_id(WAIT_S * 1_000)
        assert instance_id is not None
        receiver.wait_for("our-producer", lambda point: point.name == SENT)
    # The push of a client that ends is answered before `close` returns, so the file has it.
    points = receiver.points("our-producer")
    assert _total(points, SENT, receiver.topic) == RECORDS
    assert {point.instance_id for point in points} == {instance_id}
    assert {point.is_terminating for point in points} == {"false", "true"}

    place = ["--bootstrap-server", receiver.bootstrap_servers, "--topic", receiver.topic]
    properties = ["--producer-property", "client.id=java-producer"]
    with running_tool_4(CONSOLE_PRODUCER, *place, *properties, input_text="v\n" * RECORDS):
        receiver.wait_for("java-producer", lambda point: point.name == SENT)
    _compare(receiver, "our-producer", "java-producer")


def test_what_a_consumer_pushes_is_what_it_read_named_as_javas(receiver: Receiver) -> None:
    with Producer(receiver.bootstrap_servers) as producer:
        for _ in range(RECORDS):
            producer.send(receiver.topic, b"v").result(WAIT_S)
    with Consumer(
        receiver.bootstrap_servers, client_id="our-consumer", group_id="ours", auto_offset_reset="earliest"
    ) as consumer:
        consumer.subscribe([receiver.topic])
        read = len(poll_records(consumer, RECORDS, WAIT_S))

        def is_pushed() -> bool:
            nonlocal read
            read += len(consumer.poll(100))
            return any(map(_is_of_a_topic, receiver.points("our-consumer")))

        eventually(is_pushed, bool, WAIT_S)
        member_id = consumer.group_metadata().member_id
    points = receiver.points("our-consumer")
    assert _total(points, CONSUMED, receiver.topic) == read
    assert {point.is_terminating for point in points} == {"false", "true"}
    assert all("group_id=ours" in point.resource for point in points)
    assert f"group_member_id={member_id}" in points[-1].resource

    place = ["--bootstrap-server", receiver.bootstrap_servers, "--topic", receiver.topic, "--from-beginning"]
    properties = ["--consumer-property", "client.id=java-consumer", "--consumer-property", "group.id=javas"]
    with running_tool_4(CONSOLE_CONSUMER, *place, *properties):
        receiver.wait_for("java-consumer", _is_of_a_topic)
    _compare(receiver, "our-consumer", "java-consumer")


def _is_of_a_topic(point: DataPoint) -> bool:
    """Return whether records were read by then: before, only the total of all topics is pushed."""
    return point.name == CONSUMED and point.attributes != ""


def _compare(receiver: Receiver, ours: str, javas: str) -> None:
    """Compare the names, kinds and attributes of what two clients have pushed, and what the resource names."""
    our_kinds, java_kinds = receiver.kinds(ours), receiver.kinds(javas)
    assert len(our_kinds) > 10
    assert {name: java_kinds.get(name) for name in our_kinds} == our_kinds
    our_labels, java_labels = (
        frozenset().union(*(_keys(point.resource) for point in receiver.points(each))) for each in (ours, javas)
    )
    assert our_labels == java_labels
