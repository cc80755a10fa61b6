"""Groups come back when their broker does: offsets at once, members where they were."""

from __future__ import annotations

import pytest

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.classic_groups import HeartbeatRequest, HeartbeatResponse
from barnabas.protocol.messages.group_admin import DescribeGroupsRequest, DescribeGroupsResponse
from barnabas.protocol.messages.offsets import OffsetFetchRequest, OffsetFetchResponse
from barnabas.protocol.topic_partition import TopicPartition
from tests.support.raw_client import RawClient
from tests.support.raw_group_member import await_coordinator, classic_member
from tests.support.raw_offsets import commit_offsets, fetch_offsets
from tests.support.server_fixtures import AGAINST_KAFKA, Server

pytestmark = pytest.mark.skipif(AGAINST_KAFKA, reason="its registration in ZooKeeper outlives a kill for a while")

GROUPS = 300


@pytest.mark.parametrize("ends", ["stopped", "killed"])
def test_members_go_on_where_they_were(own_server: Server, topic: str, ends: str) -> None:
    own_server.start()
    with RawClient(own_server) as client:
        client.create_topic(topic, 2)
        await_coordinator(client, "group")
        member = classic_member(own_server, "group", [TopicPartition(topic, 0)], "instance")
        member_id = member.__enter__()  # and it does not leave
        (before,) = client.call(DescribeGroupsRequest(["group"]), 5, DescribeGroupsResponse).groups
        committed = commit_offsets(client, "group", topic, {0: 7}, generation_id_or_member_epoch=1, member_id=member_id)
        assert committed == {0: ErrorCode.NONE}
    if ends == "stopped":
        own_server.stop()
    else:
        own_server.kill()
    own_server.start()
    with RawClient(own_server) as client:
        await_coordinator(client, "group")
        (after,) = client.call(DescribeGroupsRequest(["group"]), 5, DescribeGroupsResponse).groups
        assert (after, after.group_state) == (before, "Stable")
        heartbeat = HeartbeatRequest("group", 1, member_id, "instance")
        assert client.call(heartbeat, 4, HeartbeatResponse).error_code == ErrorCode.NONE
        assert fetch_offsets(client, "group", topic, None) == {0: (7, 3, "m", ErrorCode.NONE)}


def test_groups_are_refused_until_they_are_there(own_server: Server, topic: str) -> None:
    own_server.start()
    groups = [f"group-{number}" for number in range(GROUPS)]
    partitions = dict.fromkeys(range(20), 1)
    with RawClient(own_server) as client:
        client.create_topic(topic, len(partitions))
        await_coordinator(client, "group-0")
        for group in groups:
            await_coordinator(client, group)
            assert set(commit_offsets(client, group, topic, partitions).values()) == {ErrorCode.NONE}
    own_server.kill()
    own_server.start()
    with RawClient(own_server) as client:
        waiting = set(groups)
        while waiting:
            asked = [OffsetFetchRequest.OffsetFetchRequestGroup(group, topics=None) for group in sorted(waiting)]
            answer = client.call(OffsetFetchRequest(groups=asked), 8, OffsetFetchResponse)
            for found in answer.groups:
                if found.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                    continue
                assert found.error_code == ErrorCode.NONE
                assert [len(each.partitions) for each in found.topics] == [len(partitions)]
                waiting.discard(found.group_id)
