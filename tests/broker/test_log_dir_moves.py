"""AlterReplicaLogDirs: v0-2: replicas move between the log directories of a broker, under load and over restarts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.codes import ConfigResourceType
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.configs import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse
from barnabas.protocol.messages.log_dirs import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from barnabas.records.memory_records import any_batches
from barnabas.records.record_batch import RecordBatch
from tests.broker.versions import SERVED
from tests.support.raw_client import SECONDS, RawClient
from tests.support.server_fixtures import MODES, Server, make_server_with_two_dirs
from tests.support.waiting import wait_until

RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
SMALL_SEGMENTS = {"segment.bytes": "20000"}


@pytest.fixture(params=MODES[:1])  # the request is never brief, so that one mode of ours says all
def two_dirs(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    """A server with the log directories a and b, started."""
    server = make_server_with_two_dirs(request.param, tmp_path)
    server.start()
    yield server
    server.close()


def alter(client: RawClient, topic: str, path: Path, version: int = 2) -> ErrorCode:
    """Ask for partition 0 to lie in a directory; the error."""
    request = AlterReplicaLogDirsRequest(
        [
            AlterReplicaLogDirsRequest.AlterReplicaLogDir(
                str(path), [AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic(topic, [0])]
            )
        ]
    )
    answer = client.call(request, version, AlterReplicaLogDirsResponse)
    ((found,),) = [each.partitions for each in answer.results]
    assert (answer.results[0].topic_name, found.partition_index) == (topic, 0)
    return ErrorCode(found.error_code)


def places(client: RawClient, topic: str) -> dict[tuple[str, bool], DescribeLogDirsResponse.DescribeLogDirsPartition]:
    """The replicas of partition 0: by the last name of their log directory, and whether they are copies."""
    wanted = DescribeLogDirsRequest.DescribableLogDirTopic(topic, [0])
    answer = client.call(DescribeLogDirsRequest([wanted]), 4, DescribeLogDirsResponse)
    return {
        (os.path.basename(directory.log_dir), each.is_future_key): each
        for directory in answer.results
        for found in directory.topics
        for each in found.partitions
    }


def limit(client: RawClient, rate: int) -> None:
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
        ConfigResourceType.BROKER, "", [IncrementalAlterConfigsRequest.AlterableConfig(RATE, 0, str(rate))]
    )
    answer = client.call(IncrementalAlterConfigsRequest([resource]), 1, IncrementalAlterConfigsResponse)
    assert [each.error_code for each in answer.responses] == [ErrorCode.NONE]


def two_places(tmp_path: Path, topic: str) -> tuple[Path, Path]:
    """The directory that holds the topic's partition 0, and the other one."""
    a, b = tmp_path / "a", tmp_path / "b"
    return (a, b) if (a / f"{topic}-0").exists() else (b, a)


def values_in(client: RawClient, topic: str) -> list[bytes]:
    """The values of all records of partition 0."""
    values: list[bytes] = []
    end, offset = client.end_offset(topic), 0
    while offset < end:
        for batch in any_batches(client.fetch(topic, offset).records or b""):
            assert isinstance(batch, RecordBatch)
            values += [record.value or b"" for record in batch.records()]
            offset = batch.next_offset
    return values


def test_move_while_records_arrive(two_dirs: Server, tmp_path: Path) -> None:
    topic = "moved"
    values = [b"%d " % number + b"x" * 500 for number in range(300)]
    with RawClient(two_dirs) as client:
        client.create_topic(topic, configs=SMALL_SEGMENTS)
        for value in values[:150]:
            client.produce_values(topic, value)
        source, destination = two_places(tmp_path, topic)
        assert alter(client, topic, destination) is ErrorCode.NONE
        for value in values[150:]:
            client.produce_values(topic, value)
        wait_until(lambda: set(places(client, topic)) == {(destination.name, False)}, SECONDS)
        assert values_in(client, topic) == values
        assert not (source / f"{topic}-0").exists()
    two_dirs.stop()
    two_dirs.start()
    with RawClient(two_dirs) as client:
        client.wait_for_leaders(topic, 1)
        assert values_in(client, topic) == values
        client.produce_values(topic, b"later")
        assert values_in(client, topic) == [*values, b"later"]


def test_throttled_move_is_shown_and_outlives_a_restart(two_dirs: Server, tmp_path: Path) -> None:
    topic = "slow"
    values = [b"%d " % number + b"x" * 5000 for number in range(600)]
    with RawClient(two_dirs) as client:
        client.create_topic(topic)
        limit(client, 1000)
        for start in range(0, len(values), 100):
            client.produce_values(topic, *values[start : start + 100])
        source, destination = two_places(tmp_path, topic)
        assert alter(client, topic, destination) is ErrorCode.NONE
        wait_until(lambda: (destination.name, True) in places(client, topic), SECONDS)
        found = places(client, topic)
        assert set(found) == {(source.name, False), (destination.name, True)}
        copy = found[destination.name, True]
        assert copy.partition_size < found[source.name, False].partition_size
        assert 0 < copy.offset_lag <= len(values)
    two_dirs.stop()
    two_dirs.start()
    with RawClient(two_dirs) as client:
        client.wait_for_leaders(topic, 1)
        limit(client, 2**63 - 1)
        wait_until(lambda: set(places(client, topic)) == {(destination.name, False)}, SECONDS)
        assert values_in(client, topic) == values


def test_move_is_given_up_when_the_replica_is_to_stay(two_dirs: Server, tmp_path: Path) -> None:
    topic = "stays"
    with RawClient(two_dirs) as client:
        client.create_topic(topic)
        limit(client, 1)
        for _ in range(4):
            client.produce_values(topic, b"x" * 700_000)
        source, destination = two_places(tmp_path, topic)
        assert alter(client, topic, destination) is ErrorCode.NONE
        wait_until(lambda: (destination.name, True) in places(client, topic), SECONDS)
        assert alter(client, topic, source) is ErrorCode.NONE
        wait_until(lambda: set(places(client, topic)) == {(source.name, False)}, SECONDS)
        assert client.end_offset(topic) == 4


def test_what_cannot_move(two_dirs: Server, tmp_path: Path) -> None:
    topic = "refused"
    lowest, highest = SERVED[ApiKey.ALTER_REPLICA_LOG_DIRS]
    with RawClient(two_dirs) as client:
        client.create_topic(topic)
        source, other = two_places(tmp_path, topic)
        for version in range(lowest, highest + 1):
            assert alter(client, topic, source, version) is ErrorCode.NONE  # it lies there already
            assert alter(client, topic, tmp_path / "c", version) is ErrorCode.LOG_DIR_NOT_FOUND
            assert alter(client, "unknown", other, version) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert set(places(client, topic)) == {(source.name, False)}


def test_topic_is_made_in_the_directory_asked_for(two_dirs: Server, tmp_path: Path) -> None:
    with RawClient(two_dirs) as client:
        for topic, name in (("first", "b"), ("second", "a"), ("third", "a"), ("fourth", "b")):
            assert alter(client, topic, tmp_path / name) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            client.create_topic(topic)
            assert set(places(client, topic)) == {(name, False)}
