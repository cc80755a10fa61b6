"""OffsetForLeaderEpoch: v0-4: where leader epochs end, for followers and consumers."""

from __future__ import annotations

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.list_offsets import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from tests.broker.versions import each_version
from tests.support.raw_client import RawClient
from tests.support.raw_controller import RawController
from tests.support.server_fixtures import Server

UNDEFINED = -1
CONSUMER = -2


def epoch_end(
    client: RawClient,
    topic: str,
    leader_epoch: int,
    *,
    current_leader_epoch: int = UNDEFINED,
    version: int = 4,
    replica_id: int = CONSUMER,
    partition: int = 0,
) -> tuple[int, int, int]:
    """(error, epoch found, its end offset)."""
    asked = OffsetForLeaderEpochRequest.OffsetForLeaderPartition(partition, current_leader_epoch, leader_epoch)
    request = OffsetForLeaderEpochRequest(
        replica_id, [OffsetForLeaderEpochRequest.OffsetForLeaderTopic(topic, [asked])]
    )
    (answered,) = client.call(request, version, OffsetForLeaderEpochResponse).topics
    (result,) = answered.partitions
    assert (answered.topic, result.partition) == (topic, partition)
    return result.error_code, result.leader_epoch, result.end_offset


@each_version(ApiKey.OFFSET_FOR_LEADER_EPOCH)
def test_the_current_epoch_ends_at_the_log_end(client: RawClient, topic: str, version: int) -> None:
    client.create_topic(topic)
    client.produce_values(topic, b"a", b"b")
    found = UNDEFINED if version == 0 else 0
    for replica_id in (CONSUMER, 7):
        assert epoch_end(client, topic, 0, version=version, replica_id=replica_id) == (ErrorCode.NONE, found, 2)
    assert epoch_end(client, topic, 5, version=version) == (ErrorCode.NONE, UNDEFINED, UNDEFINED)


def test_unknown_topics_and_partitions(client: RawClient, topic: str) -> None:
    unknown = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, UNDEFINED, UNDEFINED)
    assert epoch_end(client, topic, 0) == unknown
    client.create_topic(topic)
    assert epoch_end(client, topic, 0, partition=1) == unknown


def test_earlier_epochs_end_where_the_next_begins(ruled_server: Server, topic: str) -> None:
    with RawClient(ruled_server) as client:
        controller = RawController(client)
        controller.create(topic)
        client.produce_values(topic, b"a", b"b")
        for epoch, value in ((4, b"c"), (7, b"d")):
            controller.lead(topic, leader_epoch=epoch, is_new=False)
            client.produce_values(topic, value)
        ends = {epoch: epoch_end(client, topic, epoch) for epoch in range(9)}
        assert ends == {
            0: (ErrorCode.NONE, 0, 0),
            1: (ErrorCode.NONE, 1, 2),
            2: (ErrorCode.NONE, 1, 2),
            3: (ErrorCode.NONE, 1, 2),
            4: (ErrorCode.NONE, 4, 3),
            5: (ErrorCode.NONE, 4, 3),
            6: (ErrorCode.NONE, 4, 3),
            7: (ErrorCode.NONE, 7, 4),
            8: (ErrorCode.NONE, UNDEFINED, UNDEFINED),
        }


def test_who_knows_another_epoch_is_fenced(ruled_server: Server, topic: str) -> None:
    with RawClient(ruled_server) as client:
        controller = RawController(client)
        controller.create(topic)
        controller.lead(topic, leader_epoch=4, is_new=False)
        assert epoch_end(client, topic, 4, current_leader_epoch=4) == (ErrorCode.NONE, 4, 0)
        fenced = epoch_end(client, topic, 4, current_leader_epoch=3)
        assert fenced == (ErrorCode.FENCED_LEADER_EPOCH, UNDEFINED, UNDEFINED)
        unknown = epoch_end(client, topic, 4, current_leader_epoch=5)
        assert unknown == (ErrorCode.UNKNOWN_LEADER_EPOCH, UNDEFINED, UNDEFINED)
