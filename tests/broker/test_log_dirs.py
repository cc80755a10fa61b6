"""DescribeLogDirs: v0-5: which replicas lie where, and how large they are."""

from __future__ import annotations

import os

import pytest

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from tests.broker.versions import each_version
from tests.support.raw_client import RawClient
from tests.support.server_fixtures import Server

Wanted = DescribeLogDirsRequest.DescribableLogDirTopic


def describe(
    client: RawClient, topics: list[DescribeLogDirsRequest.DescribableLogDirTopic] | None, version: int = 4
) -> DescribeLogDirsResponse.DescribeLogDirsResult:
    """The one log directory of these servers."""
    answer = client.call(DescribeLogDirsRequest(topics), version, DescribeLogDirsResponse)
    assert answer.error_code == ErrorCode.NONE
    (directory,) = answer.results
    assert directory.error_code == ErrorCode.NONE
    return directory


@each_version(ApiKey.DESCRIBE_LOG_DIRS)
def test_a_directory_and_its_replicas(server: Server, client: RawClient, topic: str, version: int) -> None:
    client.create_topic(topic, partitions=2)
    client.produce_values(topic, b"x" * 5000, partition=1)
    directory = describe(client, None, version)
    assert directory.log_dir == os.path.abspath(server.data_dir)
    (found,) = [each for each in directory.topics if each.name == topic]
    sizes = {each.partition_index: each.partition_size for each in found.partitions}
    segments = server.data_dir / f"{topic}-1" / f"{0:020}.log"
    assert sizes == {0: 0, 1: segments.stat().st_size}
    assert [(each.offset_lag, each.is_future_key) for each in found.partitions] == [(0, False)] * 2
    if version >= 4:
        assert 0 < directory.usable_bytes < directory.total_bytes
    else:
        assert (directory.usable_bytes, directory.total_bytes) == (-1, -1)


def test_only_the_partitions_asked_for(client: RawClient, topic: str) -> None:
    client.create_topic(topic, partitions=3)
    directory = describe(client, [Wanted(topic, [2, 0, 7]), Wanted(f"{topic}-unknown", [0])])
    (found,) = directory.topics
    assert (found.name, sorted(each.partition_index for each in found.partitions)) == (topic, [0, 2])
    assert describe(client, []).topics == []


@pytest.mark.parametrize("version", [0, 4])
def test_a_topic_that_is_deleted_is_gone(client: RawClient, topic: str, version: int) -> None:
    assert describe(client, [Wanted(topic, [0])], version).topics == []
