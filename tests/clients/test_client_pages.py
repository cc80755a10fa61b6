"""The examples of docs/clients.md and docs/tables.md, run from top to bottom, and the calls in their tables.

A page is one session with one broker: what an example sends, a later one may read.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka
import confluent_kafka.admin
import kafka
import pytest

from barnabas.clients.admin import Admin
from barnabas.clients.consumer import Consumer, ConsumerRecord
from barnabas.clients.consumer.consumer_config import ConsumerConfig
from barnabas.clients.producer import Producer, ProducerConfig
from barnabas.testing import broker
from tests.support.documented_code import ROOT, python_blocks
from tests.support.server_fixtures import AGAINST_KAFKA

pytest.importorskip("pyarrow")

CLIENTS = ROOT / "docs" / "clients.md"
TABLES = ROOT / "docs" / "tables.md"


@pytest.mark.skipif(AGAINST_KAFKA, reason="the broker of the test kit is ours")
@pytest.mark.parametrize("page", [pytest.param(page, id=page.name) for page in (CLIENTS, TABLES)])
def test_the_examples_run(page: Path) -> None:
    blocks = python_blocks(page)
    assert blocks
    names: dict[str, Any] = {}
    with broker(num_partitions=2, offsets_topic_num_partitions=1) as b:
        for block in blocks:
            block.run(names, b.bootstrap_servers)


class Call(NamedTuple):
    """A call or an attribute in a table: `producer.send(..., key=...)` is of "producer"; a constructor is of ""."""

    text: str
    owner: str
    name: str
    keywords: tuple[str, ...]


def _calls(cell: str) -> Iterator[Call]:
    for text in re.findall(r"`([^`]+)`", cell):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                yield Call(text, "", node.func.id, tuple(each.arg or "" for each in node.keywords))
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                owner = node.func.value
                if isinstance(owner, ast.Name):
                    yield Call(text, owner.id, node.func.attr, tuple(each.arg or "" for each in node.keywords))
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                yield Call(text, node.value.id, node.attr, ())


def _rows(title: str) -> list[list[str]]:
    section = CLIENTS.read_text().partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| `")]
    assert len(rows) > 15
    return rows


def _calls_in_column(column: int, *titles: str) -> list[Call]:
    return [call for title in titles for row in _rows(title) for call in _calls(row[column])]


OURS = {"producer": Producer, "consumer": Consumer, "admin": Admin, "record": ConsumerRecord}
SETTINGS = {"Producer": ProducerConfig, "Consumer": ConsumerConfig}
KAFKA_PYTHON: dict[str, Any] = {
    "producer": kafka.KafkaProducer,
    "consumer": kafka.KafkaConsumer,
    "admin": kafka.KafkaAdminClient,
}
CONFLUENT_KAFKA: dict[str, Any] = {
    "producer": confluent_kafka.Producer,
    "consumer": confluent_kafka.Consumer,
    "admin": confluent_kafka.admin.AdminClient,
    "message": confluent_kafka.Message,
}


def test_our_calls_in_the_migration_tables_exist() -> None:
    calls = _calls_in_column(1, "Coming from kafka-python", "Coming from confluent-kafka")
    assert sum(call.owner in OURS for call in calls) > 30
    for call in calls:
        if call.owner in OURS:
            member = getattr(OURS[call.owner], call.name)
            if call.keywords:
                assert set(call.keywords) <= set(inspect.signature(member).parameters), call.text
        elif call.name in SETTINGS:
            settings = {field.name for field in dataclasses.fields(SETTINGS[call.name])}
            assert set(call.keywords) <= settings, call.text


@pytest.mark.parametrize(
    ("title", "classes"),
    [("Coming from kafka-python", KAFKA_PYTHON), ("Coming from confluent-kafka", CONFLUENT_KAFKA)],
)
def test_their_calls_in_the_migration_tables_exist(title: str, classes: dict[str, Any]) -> None:
    calls = [call for call in _calls_in_column(0, title) if call.owner in classes]
    assert len(calls) > 10
    for call in calls:
        assert hasattr(classes[call.owner], call.name), call.text
