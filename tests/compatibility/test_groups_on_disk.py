"""Groups in a log directory: ours serves those that Apache Kafka 3.9 left, and the other way round.

Offsets, generations and members are what they were; and every record of the topic is, decoded and encoded by us, the
bytes that it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from barnabas.coordinator.group.offsets_topic import decode_for_display
from barnabas.coordinator.runtime.record import encode_record, version_of
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.group_admin import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from barnabas.protocol.messages.offsets import OffsetCommitRequest, OffsetCommitResponse
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.memory_records import any_batches
from tests.compatibility.data_dirs import adopt, copy_data_dir, partition_dirs, start_over_data_dir
from tests.support.apache_kafka import ApacheKafka, need_apache_kafka
from tests.support.barnabas_process import BarnabasProcess
from tests.support.raw_client import ConnectionClosed, RawClient
from tests.support.raw_group_member import await_coordinator, classic_member
from tests.support.raw_offsets import Fetched, commit_offsets, delete_offsets, fetch_offsets
from tests.support.server_process import ServerProcess

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(300)]

TOPIC = "read"
GROUPS = ("plain", "with-retention", "deleted-in-part", "of-members", "empty-with-name")
PROPERTIES = {
    "offsets.topic.num.partitions": "2",
    "zookeeper.session.timeout.ms": "4000",
    "log.cleaner.enable": "false",
}
CONFIGS = {"__consumer_offsets": {"cleanup.policy": "compact", "compression.type": "producer"}, TOPIC: {}}


def make_groups(client: RawClient, server: ServerProcess) -> None:
    """All that a group can leave in the log. The member of one stays in it."""
    client.create_topic(TOPIC, 3)
    for group in GROUPS:
        await_coordinator(client, group)
    for offset in range(5):
        commit_offsets(client, "plain", TOPIC, {0: offset, 2: offset + 100})
    commit_offsets(client, "with-retention", TOPIC, {1: 5}, 3, retention_time_ms=10**9)
    commit_offsets(client, "deleted-in-part", TOPIC, {0: 1, 1: 2})
    assert delete_offsets(client, "deleted-in-part", TOPIC, 0)[0] == ErrorCode.NONE
    with classic_member(server, "empty-with-name", [TopicPartition(TOPIC, 0)]):
        commit_as_simple_consumer(client)
    # Entered and not left: its broker stops first.
    member = classic_member(server, "of-members", [TopicPartition(TOPIC, 1)], "instance")
    member.__enter__()


def commit_as_simple_consumer(client: RawClient) -> None:
    """What is refused while there are members leaves nothing behind."""
    partitions = [OffsetCommitRequest.OffsetCommitRequestPartition(0, 7, committed_metadata="")]
    topics = [OffsetCommitRequest.OffsetCommitRequestTopic(name=TOPIC, partitions=partitions)]
    (answer,) = client.call(OffsetCommitRequest("empty-with-name", topics=topics), 8, OffsetCommitResponse).topics
    assert answer.partitions[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID


def described(client: RawClient) -> dict[str, Any]:
    """States, members and offsets of all groups."""
    groups = client.call(DescribeGroupsRequest(list(GROUPS)), 5, DescribeGroupsResponse).groups
    offsets: dict[str, Fetched] = {group: fetch_offsets(client, group, TOPIC, None) for group in GROUPS}
    listed = client.call(ListGroupsRequest(), 4, ListGroupsResponse).groups
    return {
        "groups": {each.group_id: each for each in groups},
        "offsets": offsets,
        "listed": sorted((each.group_id, each.protocol_type, each.group_state) for each in listed),
    }


@contextmanager
def loaded(server: ServerProcess) -> Iterator[RawClient]:
    """A connection to a broker that has loaded all its groups."""
    with RawClient(server) as client:
        client.wait_for_leaders("__consumer_offsets", 2)
        for group in GROUPS:
            await_coordinator(client, group)
        yield client


def records_of(data_dir: Path) -> list[tuple[bytes, bytes | None]]:
    """Of all partitions of `__consumer_offsets`."""
    return [
        (record.key or b"", record.value)
        for directory in partition_dirs(data_dir)["__consumer_offsets"].values()
        for path in sorted(directory.glob("*.log"))
        for batch in any_batches(path.read_bytes())
        for record in batch.records()
    ]


def same_bytes_again(data_dir: Path) -> set[tuple[int, int | None]]:
    """Decode and encode every record; the kinds and versions that were there."""
    seen = set()
    for key, value in records_of(data_dir):
        decoded_key, decoded_value = decode_for_display(key, value)
        assert encode_record(decoded_key, version_of(key)) == key
        if value is not None:
            assert encode_record(decoded_value, version_of(value)) == value
        seen.add((version_of(key), None if value is None else version_of(value)))
    return seen


WRITTEN = {(1, 3), (1, 1), (1, None), (2, 3)}
"""Kinds and versions that `make_groups` leaves."""


def test_we_serve_kafkas_groups(tmp_path: Path) -> None:
    need_apache_kafka()
    kafka = ApacheKafka(tmp_path / "kafka", PROPERTIES)
    try:
        kafka.start()
        with suppress(ConnectionClosed, OSError), RawClient(kafka) as client:
            make_groups(client, kafka)
            before = described(client)
            kafka.stop()
    finally:
        kafka.close()
    assert same_bytes_again(kafka.data_dir) == WRITTEN
    directory = copy_data_dir(kafka.data_dir, tmp_path / "adopted")
    adopt(directory, configs=CONFIGS)
    ours = BarnabasProcess(tmp_path / "ours", PROPERTIES)
    ours.data_dir = directory
    try:
        ours.start()
        with loaded(ours) as client:
            assert described(client) == before
    finally:
        ours.close()


def test_kafka_serves_our_groups(tmp_path: Path) -> None:
    need_apache_kafka()
    ours = BarnabasProcess(tmp_path / "ours", PROPERTIES | {"offsets.topic.replication.factor": "1"})
    try:
        ours.start()
        with suppress(ConnectionClosed, OSError), RawClient(ours) as client:
            make_groups(client, ours)
            before = described(client)
            ours.stop()
    finally:
        ours.close()
    assert same_bytes_again(ours.data_dir) == WRITTEN
    kafka = ApacheKafka(tmp_path / "kafka", PROPERTIES)
    kafka.data_dir = copy_data_dir(ours.data_dir, tmp_path / "data")
    try:
        start_over_data_dir(kafka, CONFIGS)
        with loaded(kafka) as client:
            assert described(client) == before
    finally:
        kafka.close()
