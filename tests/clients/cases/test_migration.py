"""Each right-hand line of the tables "Coming from ..." in docs/clients.md, run against a broker.

The lines are read from the page, so that a line that is added there is run here. Each gets a broker's address for
"b:9092", a topic for "t", a group for "g", and the clients, records and functions that the lines name.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from barnabas.clients.admin import Admin, NewTopic, OffsetAndMetadata
from barnabas.clients.consumer import Consumer, RebalanceListener, TopicPartition
from barnabas.clients.producer import Producer
from tests.support.documented_code import ROOT
from tests.support.server_fixtures import Server

PAGE = ROOT / "docs" / "clients.md"
RECORDS = 5


def right_hand_lines(page: Path) -> Iterator[str]:
    """The code of the second column of each "Coming from" table."""
    for section in re.split(r"^## ", page.read_text(), flags=re.MULTILINE):
        if section.startswith("Coming from "):
            for row in re.findall(r"^\| (?!---)(?:.*?) \| (.*?) \| .*\|$", section, re.MULTILINE):
                yield from re.findall(r"`([^`]+)`", row)


LINES = tuple(dict.fromkeys(right_hand_lines(PAGE)))


def filled_consumer(stack: ExitStack, address: str, topic: str) -> Consumer:
    """A consumer with a group, which has read the records of the topic's first partition."""
    consumer = stack.enter_context(Consumer(address, group_id=topic, auto_offset_reset="earliest"))
    consumer.assign([TopicPartition(topic, 0)])
    while consumer.position(TopicPartition(topic, 0)) < RECORDS:
        consumer.poll(1_000)
    return consumer


def names_of(stack: ExitStack, address: str, topic: str, line: str) -> dict[str, Any]:
    """What a line may name. The functions and the listener do nothing."""
    admin = stack.enter_context(Admin(address))
    if not line.startswith("admin.create_topics"):
        admin.create_topics([NewTopic(topic, 1)])
        with Producer(address) as filling:
            futures = [filling.send(topic, b"%d" % number, timestamp_ms=1_000 + number) for number in range(RECORDS)]
        assert [future.result(0).offset for future in futures] == list(range(RECORDS))
        admin.alter_group_offsets(topic, {TopicPartition(topic, 0): 0})
    names: dict[str, Any] = {
        "Producer": Producer,
        "Consumer": Consumer,
        "NewTopic": NewTopic,
        "OffsetAndMetadata": OffsetAndMetadata,
        "TopicPartition": TopicPartition,
        "admin": admin,
        "tp": TopicPartition(topic, 0),
        "offset": 3,
        "listener": RebalanceListener(),
        "both": lambda metadata, error: None,
        "f": lambda *arguments: None,
    }
    if "producer." in line:
        names["producer"] = stack.enter_context(Producer(address))
    if line.startswith("consumer.subscribe"):
        names["consumer"] = stack.enter_context(Consumer(address, group_id=topic))
    elif "consumer." in line:
        names["consumer"] = filled_consumer(stack, address, topic)
    elif line.startswith("record."):
        with Consumer(address, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            names["record"] = consumer.poll(30_000)[0]
    return names


def run(line: str, names: dict[str, Any]) -> Any:
    """Run a line; its value, if it has one."""
    if line.startswith("for "):
        exec(line, names)
        return None
    return eval(line, names)


EXPECTED: dict[str, Any] = {
    'producer.send("t", b"v", key=b"k").result(10)': lambda topic, value: value.offset == RECORDS,
    'producer.partitions_for("t")': lambda topic, value: [each.partition for each in value] == [0],
    'consumer.partitions_for("t")': lambda topic, value: [each.partition for each in value] == [0],
    "consumer.poll(1000)": lambda topic, value: value == [],
    "record.timestamp_ms": lambda topic, value: value == 1_000,
    "record.value": lambda topic, value: value == b"0",
    "record.offset": lambda topic, value: value == 0,
    "consumer.committed([tp])[tp]": lambda topic, value: value is not None,
    "consumer.current_lag(tp)": lambda topic, value: value == 0,
    "consumer.beginning_offsets([tp])": lambda topic, value: value == {TopicPartition(topic, 0): 0},
    "consumer.end_offsets([tp])": lambda topic, value: value == {TopicPartition(topic, 0): RECORDS},
    'admin.list_group_offsets("g")': lambda topic, value: [each.offset for each in value.values()] == [0],
}
"""What the value of a line has to be, where it has one."""


def test_the_page_has_the_lines_that_are_expected() -> None:
    assert len(LINES) > 30
    assert EXPECTED.keys() <= set(LINES)


@pytest.mark.parametrize("line", LINES)
def test_a_line_runs(server: Server, line: str) -> None:
    topic = f"migration-{uuid.uuid4().hex[:8]}"
    code = line.replace('"b:9092"', repr(server.bootstrap_servers)).replace('"t"', repr(topic))
    code = code.replace('"g"', repr(topic)).replace('"a.*"', repr(f"{topic}.*"))
    with ExitStack() as stack:
        names = names_of(stack, server.bootstrap_servers, topic, line)
        value = run(code, names)
        if isinstance(value, Producer | Consumer):
            stack.enter_context(value)
        if isinstance(value, Producer):
            value.send(topic, "v" if value.config.value_serializer != "bytes" else b"v").result(30)
        if isinstance(value, Consumer):
            value.subscribe([topic])
            value.poll(100)
        if line in EXPECTED:
            assert EXPECTED[line](topic, value)
        if line.startswith("admin.create_topics"):
            assert len(names["admin"].describe_topics([topic])[topic].partitions) == 4
