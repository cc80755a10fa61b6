"""DescribeProducers: v0: what a partition remembers of its idempotent producers."""

from __future__ import annotations

import time

import pytest

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from tests.broker.versions import each_version
from tests.support.raw_client import RawClient, make_batch
from tests.support.server_fixtures import MODES, Server
from tests.support.transaction_markers import describe_producers

NOT_ALLOWED = "contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"


def produce(client: RawClient, topic: str, producer_id: int, epoch: int, sequence: int, *values: bytes) -> None:
    batch = make_batch(
        values, timestamp_ms=1_700_000_000_000, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence
    )
    assert client.produce(topic, batch).error_code == ErrorCode.NONE


@each_version(ApiKey.DESCRIBE_PRODUCERS)
def test_the_producers_of_a_partition(client: RawClient, topic: str, version: int) -> None:
    client.create_topic(topic, partitions=2)
    produce(client, topic, 71, 0, 0, b"a", b"b")
    produce(client, topic, 72, 3, 0, b"c")
    produce(client, topic, 71, 0, 2, b"d")
    first, second = describe_producers(client, topic, 0, 1)
    assert (first.error_code, second.error_code, second.active_producers) == (ErrorCode.NONE, ErrorCode.NONE, [])
    found = sorted(first.active_producers, key=lambda each: each.producer_id)
    assert [(each.producer_id, each.producer_epoch, each.last_sequence) for each in found] == [(71, 0, 2), (72, 3, 0)]
    assert {(each.coordinator_epoch, each.current_txn_start_offset) for each in found} == {(-1, -1)}
    assert {each.last_timestamp for each in found} == {1_700_000_000_000}


def test_producers_without_an_id_are_not_remembered(client: RawClient, topic: str) -> None:
    client.create_topic(topic)
    client.produce_values(topic, b"a")
    assert describe_producers(client, topic, 0)[0].active_producers == []


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("no-such-topic", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."),
        ("a b", ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: 'a b' {NOT_ALLOWED}"),
    ],
)
def test_names_that_are_no_topics(client: RawClient, name: str, code: ErrorCode, message: str) -> None:
    for answer in describe_producers(client, name, 0, 5):
        assert (answer.error_code, answer.error_message, answer.active_producers) == (code, message, [])


def test_partitions_that_are_not_there(client: RawClient, topic: str) -> None:
    client.create_topic(topic)
    hosted, missing = describe_producers(client, topic, 0, 1)
    assert (hosted.error_code, missing.error_code) == (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


@pytest.mark.parametrize("own_server", MODES, indirect=True)
def test_producers_are_remembered_over_a_restart(own_server: Server, topic: str) -> None:
    with own_server.running(), RawClient(own_server) as client:
        client.create_topic(topic)
        stamp = int(time.time() * 1000)
        batch = make_batch([b"a", b"b"], timestamp_ms=stamp, producer_id=71, producer_epoch=1, base_sequence=0)
        assert client.produce(topic, batch).error_code == ErrorCode.NONE
    with own_server.running(), RawClient(own_server) as client:
        client.wait_for_leaders(topic, 1)
        (found,) = describe_producers(client, topic, 0)[0].active_producers
        assert (found.producer_id, found.producer_epoch, found.last_sequence) == (71, 1, 1)
