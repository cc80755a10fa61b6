"""Keys and values as the user wants them, and records that cannot be read."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.clients.consumer.consumer import Consumer
from barnabas.clients.errors import RecordDeserializationError
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.record_batch_builder import RecordBatchBuilder
from tests.support.scripted_cluster import ScriptedCluster

TP0 = TopicPartition("t", 0)


def consumer_of(*values: bytes | None, **settings: Any) -> Consumer:
    cluster = ScriptedCluster({"t": [0]})
    builder = RecordBatchBuilder()
    for value in values:
        builder.append(1, b"key", value)
    cluster.logs["t", 0] = builder.build()
    consumer = Consumer("", client=cluster.client(), **{"auto_offset_reset": "earliest", **settings})
    consumer.assign([TP0])
    return consumer


def test_by_name_and_by_function() -> None:
    (record,) = consumer_of(b'{"a": 1}', key_deserializer="str", value_deserializer="json").poll(1000)
    assert (record.key, record.value) == ("key", {"a": 1})
    (record,) = consumer_of(b"x", value_deserializer=lambda topic, data: (topic, data)).poll(1000)
    assert (record.key, record.value) == (b"key", ("t", b"x"))


def test_a_null_stays_none() -> None:
    (record,) = consumer_of(None, value_deserializer="json").poll(1000)
    assert record.value is None


def test_a_record_that_cannot_be_read_is_named_and_can_be_skipped() -> None:
    consumer = consumer_of(b"1", b"2", b"{", b"4", value_deserializer="json")
    assert [record.value for record in consumer.poll(1000)] == [1, 2]
    with pytest.raises(RecordDeserializationError):
        consumer.poll(1000)
    with pytest.raises(RecordDeserializationError, match="value for partition t-0 at offset 2") as raised:
        consumer.poll(1000)
    error = raised.value
    assert (error.topic_partition, error.offset, error.part) == (TP0, 2, "value")
    assert isinstance(error.__cause__, ValueError)
    assert consumer.position(TP0) == 2
    consumer.seek(error.topic_partition, error.offset + 1)
    assert [record.value for record in consumer.poll(1000)] == [4]


def test_wrong_settings_name_what_is_right() -> None:
    with pytest.raises(ValueError, match=r"key_deserializer must be bytes, str, json .* did you mean 'json'"):
        consumer_of(key_deserializer="jsn")
    with pytest.raises(TypeError, match="value_deserializer must be a name or a function"):
        consumer_of(value_deserializer=5)
