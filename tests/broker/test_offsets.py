"""OffsetCommit v0-10, OffsetFetch v0-10, OffsetDelete v0."""

from __future__ import annotations

import time

import pytest

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from barnabas.protocol.messages.topics import DeleteTopicsRequest, DeleteTopicsResponse
from tests.broker.versions import each_version
from tests.support.raw_client import SECONDS, RawClient
from tests.support.raw_offsets import (
    NONE,
    NOT_COMMITTED,
    CommitPartition,
    CommitTopic,
    Fetched,
    commit_offsets,
    delete_offsets,
    fetch_offsets,
    find_coordinator,
)
from tests.support.server_fixtures import AGAINST_KAFKA, Server
from tests.support.waiting import wait_until

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@each_version(ApiKey.OFFSET_COMMIT, lowest=1)
def test_every_version_of_commit(client: RawClient, topic: str, group: str, version: int) -> None:
    client.create_topic(topic, 2)
    assert commit_offsets(client, group, topic, {0: 7, 1: 8, 9: 9}, version) == {0: NONE, 1: NONE, 9: UNKNOWN}
    epoch = 3 if version >= 6 else -1
    assert fetch_offsets(client, group, topic, [0, 1]) == {0: (7, epoch, "m", NONE), 1: (8, epoch, "m", NONE)}


@each_version(ApiKey.OFFSET_FETCH, lowest=1)
def test_every_version_of_fetch(client: RawClient, topic: str, group: str, version: int) -> None:
    client.create_topic(topic, 2)
    commit_offsets(client, group, topic, {1: 8})
    epoch = 3 if version >= 5 else -1
    assert fetch_offsets(client, group, topic, [0, 1], version) == {0: NOT_COMMITTED, 1: (8, epoch, "m", NONE)}
    if version >= 2:
        assert fetch_offsets(client, group, topic, None, version) == {1: (8, epoch, "m", NONE)}
        assert fetch_offsets(client, f"{group}-unknown", topic, None, version) == {}


def test_version_0_keeps_offsets_apart_from_groups(client: RawClient, topic: str, group: str) -> None:
    client.create_topic(topic, 2)
    assert commit_offsets(client, group, topic, {0: 7}, 1) == {0: NONE}
    assert fetch_offsets(client, group, topic, [0], 0) == {0: (-1, -1, "", UNKNOWN)}
    assert commit_offsets(client, group, topic, {0: 5, 9: 5}, 0) == {0: NONE, 9: UNKNOWN}
    assert commit_offsets(client, group, topic, {0: 6}, 0) == {0: NONE}
    assert fetch_offsets(client, group, topic, [0, 9], 0) == {0: (6, -1, "", NONE), 9: (-1, -1, "", UNKNOWN)}
    assert fetch_offsets(client, group, topic, [0], 1) == {0: (7, -1, "m", NONE)}


def test_several_groups_at_once(client: RawClient, topic: str, group: str) -> None:
    client.create_topic(topic, 2)
    commit_offsets(client, group, topic, {0: 1})
    asked = OffsetFetchRequest.OffsetFetchRequestTopics(name=topic, partition_indexes=[0])
    groups = [
        OffsetFetchRequest.OffsetFetchRequestGroup(group, topics=None),
        OffsetFetchRequest.OffsetFetchRequestGroup(f"{group}-other", topics=[asked]),
    ]
    answer = client.call(OffsetFetchRequest(groups=groups), 8, OffsetFetchResponse)
    found = {
        each.group_id: [partition.committed_offset for of in each.topics for partition in of.partitions]
        for each in answer.groups
    }
    assert found == {group: [1], f"{group}-other": [-1]}


@pytest.mark.skipif(AGAINST_KAFKA, reason="topic ids came with 4.2")
def test_a_topic_that_is_named_twice_is_answered_for_both(client: RawClient, topic: str, group: str) -> None:
    client.create_topic(topic, 1)
    asked = [
        OffsetCommitRequest.OffsetCommitRequestTopic(name, partitions=[CommitPartition(number, 1)])
        for name, number in ((f"{topic}-missing", 0), (f"{topic}-missing", 1), (topic, 0))
    ]
    answer = client.call(OffsetCommitRequest(group, topics=asked), 8, OffsetCommitResponse)
    errors = {
        (each.name, partition.partition_index): partition.error_code
        for each in answer.topics
        for partition in each.partitions
    }
    assert errors == {(f"{topic}-missing", 0): UNKNOWN, (f"{topic}-missing", 1): UNKNOWN, (topic, 0): NONE}


def test_ids_of_no_topic(client: RawClient, group: str) -> None:
    nobody = bytes(15) + b"\x01"
    topics = [CommitTopic(topic_id=nobody, partitions=[CommitPartition(0, 5)])]
    answer = client.call(OffsetCommitRequest(group, topics=topics), 10, OffsetCommitResponse)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    asked = OffsetFetchRequest.OffsetFetchRequestTopics(topic_id=nobody, partition_indexes=[0])
    groups = [OffsetFetchRequest.OffsetFetchRequestGroup(group, topics=[asked])]
    fetched = client.call(OffsetFetchRequest(groups=groups), 10, OffsetFetchResponse)
    assert fetched.groups[0].topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_who_names_a_generation_must_be_a_member(client: RawClient, topic: str, group: str) -> None:
    client.create_topic(topic, 2)
    refused = commit_offsets(client, group, topic, {0: 1}, generation_id_or_member_epoch=1, member_id="somebody")
    assert refused == {0: ErrorCode.ILLEGAL_GENERATION}
    assert fetch_offsets(client, group, topic, None) == {}


def test_metadata_has_a_limit(client: RawClient, topic: str, group: str) -> None:
    client.create_topic(topic, 2)
    partitions = [
        CommitPartition(0, 1, committed_metadata="x" * 4097),
        CommitPartition(1, 1, committed_metadata="y" * 4096),
    ]
    request = OffsetCommitRequest(group, topics=[CommitTopic(name=topic, partitions=partitions)])
    (answer,) = client.call(request, 8, OffsetCommitResponse).topics
    errors = {each.partition_index: each.error_code for each in answer.partitions}
    assert errors == {0: ErrorCode.OFFSET_METADATA_TOO_LARGE, 1: NONE}
    assert fetch_offsets(client, group, topic, [0, 1])[1] == (1, -1, "y" * 4096, NONE)


def test_offsets_are_deleted(client: RawClient, topic: str, group: str) -> None:
    client.create_topic(topic, 2)
    assert delete_offsets(client, group, topic, 0) == (ErrorCode.GROUP_ID_NOT_FOUND, {})
    commit_offsets(client, group, topic, {0: 1, 1: 1})
    assert delete_offsets(client, group, topic, 0, 9) == (NONE, {0: NONE, 9: UNKNOWN})
    assert fetch_offsets(client, group, topic, None) == {1: (1, 3, "m", NONE)}


def test_a_deleted_topic_takes_its_offsets_with_it(client: RawClient, topic: str, group: str) -> None:
    client.create_topic(topic, 2)
    commit_offsets(client, group, topic, {0: 1})
    client.call(DeleteTopicsRequest(topic_names=[topic], timeout_ms=10_000), 5, DeleteTopicsResponse)
    wait_until(lambda: not fetch_offsets(client, group, topic, None), SECONDS)


@pytest.mark.skipif(AGAINST_KAFKA, reason="its registration in ZooKeeper outlives it for a while")
def test_commits_outlive_a_kill(own_server: Server, topic: str) -> None:
    own_server.start()
    with RawClient(own_server) as client:
        client.create_topic(topic, 2)
        find_coordinator(client, "group")
        for offset in range(200):
            assert commit_offsets(client, "group", topic, {0: offset}) == {0: NONE}
    own_server.kill()
    own_server.start()
    with RawClient(own_server) as client:
        find_coordinator(client, "group")
        assert fetch_when_loaded(client, "group", topic) == {0: (199, 3, "m", NONE)}


def fetch_when_loaded(client: RawClient, group: str, topic: str) -> Fetched:
    """What is committed, once the coordinator has loaded it."""
    deadline = time.monotonic() + SECONDS
    while True:
        asked = [OffsetFetchRequest.OffsetFetchRequestGroup(group, topics=None)]
        (one,) = client.call(OffsetFetchRequest(groups=asked), 8, OffsetFetchResponse).groups
        if one.error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return fetch_offsets(client, group, topic, None)
        assert time.monotonic() < deadline
        time.sleep(0.05)
