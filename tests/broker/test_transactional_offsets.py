"""TxnOffsetCommit v0-4 over the wire: offsets that count when their transaction commits.

v5 asks the transaction's coordinator, which these tests play: test_transaction_version.py has it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.metadata.topic_name import GROUP_METADATA_TOPIC
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.inter_broker import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from barnabas.protocol.messages.transactions import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from barnabas.protocol.topic_partition import TopicPartition
from tests.broker.versions import each_version
from tests.support.raw_client import RawClient
from tests.support.raw_group_member import await_coordinator, classic_member, consumer_member
from tests.support.raw_offsets import NOT_COMMITTED, fetch_offsets
from tests.support.server_fixtures import AGAINST, MODES, Server, make_server

NONE, UNKNOWN = ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
ONE_PARTITION = {"offsets_topic_num_partitions": "1", "transaction_partition_verification_enable": "false"}


@pytest.fixture(scope="module", params=MODES)
def unverified(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that lets any producer begin a transaction: these tests play its coordinator."""
    server = make_server(request.param, tmp_path_factory.mktemp("offsets"), **ONE_PARTITION)
    with server.running():
        yield server


@pytest.fixture
def free(unverified: Server, topic: str) -> Iterator[RawClient]:
    with RawClient(unverified) as client:
        await_coordinator(client, topic)
        client.create_topic(topic, partitions=2)
        yield client


def commit(
    client: RawClient, group: str, topic: str, offsets: dict[int, int], version: int = 4, **fields: Any
) -> dict[int, int]:
    """Commit with the metadata "m"; errors by partition."""
    epoch = 3 if version >= 2 else -1
    partitions = [
        TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(number, offset, epoch, "m")
        for number, offset in offsets.items()
    ]
    asked = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(topic, partitions)
    request = TxnOffsetCommitRequest("mine", group, fields.pop("producer_id", 71), 0, topics=[asked], **fields)
    (answer,) = client.call(request, version, TxnOffsetCommitResponse).topics
    assert answer.name == topic
    return {each.partition_index: each.error_code for each in answer.partitions}


def end(client: RawClient, *, commits: bool, producer_id: int = 71) -> None:
    topic = WriteTxnMarkersRequest.WritableTxnMarkerTopic(GROUP_METADATA_TOPIC, [0])
    marker = WriteTxnMarkersRequest.WritableTxnMarker(producer_id, 0, commits, [topic], 0)
    answer = client.call(WriteTxnMarkersRequest([marker]), 1, WriteTxnMarkersResponse)
    assert answer.markers[0].topics[0].partitions[0].error_code == NONE


@each_version(ApiKey.TXN_OFFSET_COMMIT, highest=4)
def test_offsets_count_when_their_transaction_commits(free: RawClient, topic: str, version: int) -> None:
    group = topic  # as good a name as any
    epoch = 3 if version >= 2 else -1
    assert commit(free, group, topic, {0: 5, 1: 6, 9: 7}, version) == {0: NONE, 1: NONE, 9: UNKNOWN}
    assert fetch_offsets(free, group, topic, [0]) == {0: NOT_COMMITTED}
    unstable = ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert {found[3] for found in fetch_offsets(free, group, topic, [0, 1], require_stable=True).values()} == {unstable}
    end(free, commits=True)
    committed = {0: (5, epoch, "m", NONE), 1: (6, epoch, "m", NONE)}
    assert fetch_offsets(free, group, topic, [0, 1], require_stable=True) == committed
    commit(free, group, topic, {0: 9}, version)
    end(free, commits=False)
    assert fetch_offsets(free, group, topic, [0], require_stable=True) == {0: (5, epoch, "m", NONE)}


def test_topics_that_do_not_exist(free: RawClient, topic: str) -> None:
    assert commit(free, topic, "no-such-topic", {0: 5}) == {0: UNKNOWN}


def test_zombies_of_a_group_are_fenced(unverified: Server, free: RawClient, topic: str) -> None:
    with classic_member(unverified, topic, [TopicPartition(topic, 0)]) as member:
        assert commit(free, topic, topic, {0: 1}, member_id="zombie", generation_id=1) == {
            0: ErrorCode.UNKNOWN_MEMBER_ID
        }
        assert commit(free, topic, topic, {0: 1}, member_id=member, generation_id=7) == {
            0: ErrorCode.ILLEGAL_GENERATION
        }
        assert commit(free, topic, topic, {0: 1}, member_id=member, generation_id=1) == {0: NONE}
        end(free, commits=True)
    assert fetch_offsets(free, topic, topic, [0]) == {0: (1, 3, "m", NONE)}


@pytest.mark.skipif(AGAINST == "apache-kafka", reason="Apache Kafka 3.9 in ZooKeeper mode has no such groups")
def test_zombies_of_a_consumer_group_are_fenced(unverified: Server, free: RawClient, topic: str) -> None:
    with consumer_member(unverified, topic, [topic]) as member:
        assert commit(free, topic, topic, {0: 1}, member_id="zombie", generation_id=1) == {
            0: ErrorCode.UNKNOWN_MEMBER_ID
        }
        answers = [commit(free, topic, topic, {0: 1}, member_id=member, generation_id=epoch)[0] for epoch in range(6)]
        assert sorted(answers) == [NONE, *[ErrorCode.ILLEGAL_GENERATION] * 5], "one epoch is the member's"
        end(free, commits=True)
    assert fetch_offsets(free, topic, topic, [0]) == {0: (1, 3, "m", NONE)}


def test_offsets_are_pending_over_a_restart(tmp_path: Path, topic: str) -> None:
    server = make_server("inline", tmp_path / "server", **ONE_PARTITION)
    with server.running(), RawClient(server) as client:
        await_coordinator(client, topic)
        client.create_topic(topic, partitions=2)
        commit(client, topic, topic, {0: 5})
        commit(client, topic, topic, {1: 6}, producer_id=72)
    with server.running(), RawClient(server) as client:
        await_coordinator(client, topic)
        client.wait_for_leaders(topic, 2)
        assert fetch_offsets(client, topic, topic, [0, 1]) == {0: NOT_COMMITTED, 1: NOT_COMMITTED}
        end(client, commits=True)
        end(client, commits=False, producer_id=72)
        assert fetch_offsets(client, topic, topic, [0, 1], require_stable=True) == {
            0: (5, 3, "m", NONE),
            1: NOT_COMMITTED,
        }


def test_a_transaction_that_its_coordinator_does_not_know_commits_nothing(client: RawClient, topic: str) -> None:
    client.create_topic(topic)
    await_coordinator(client, topic)
    client.await_transaction_coordinator("t")
    assert commit(client, topic, topic, {0: 5}) == {0: ErrorCode.INVALID_PRODUCER_ID_MAPPING}
    assert fetch_offsets(client, topic, topic, [0], require_stable=True) == {0: NOT_COMMITTED}
