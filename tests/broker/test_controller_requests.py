"""What brokers ask of the controller: ControlledShutdown, AlterPartition, AllocateProducerIds, in every version."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.inter_broker import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    AlterPartitionRequest,
    AlterPartitionResponse,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from barnabas.protocol.uuid import random_uuid
from tests.broker.versions import each_version
from tests.support.raw_client import RawClient
from tests.support.server_fixtures import Server

BY_ID, WITH_REPLICAS_EPOCHS = 2, 3
EPOCHS = range(500)
"""A broker's epoch is the store's transaction that registered it: one of the first."""


@pytest.fixture
def broker(ruled_server: Server) -> Iterator[RawClient]:
    with RawClient(ruled_server) as client:
        yield client


def _allocate(client: RawClient, broker_id: int, epoch: int) -> AllocateProducerIdsResponse:
    return client.call(AllocateProducerIdsRequest(broker_id, epoch), 0, AllocateProducerIdsResponse)


def _epoch(client: RawClient) -> int:
    """Of broker 0: the one that is not stale."""
    return next(e for e in EPOCHS if _allocate(client, 0, e).error_code == ErrorCode.NONE)


def test_blocks_of_producer_ids_follow_each_other(broker: RawClient) -> None:
    epoch = _epoch(broker)
    first, second = (_allocate(broker, 0, epoch) for _ in range(2))
    assert (first.producer_id_len, second.producer_id_len) == (1000, 1000)
    assert second.producer_id_start == first.producer_id_start + 1000


def test_producer_ids_are_for_live_brokers_of_this_life(broker: RawClient) -> None:
    assert _allocate(broker, 7, _epoch(broker)).error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
    assert _allocate(broker, 0, -1).error_code == ErrorCode.STALE_BROKER_EPOCH


def _alter(
    client: RawClient, topic: str, topic_id: bytes, version: int, *, isr: list[int], leader_epoch: int = 0, epoch: int
) -> AlterPartitionResponse:
    partition = AlterPartitionRequest.PartitionData(0, leader_epoch, [], [], 0, 0)
    if version >= WITH_REPLICAS_EPOCHS:
        partition.new_isr_with_epochs = [AlterPartitionRequest.BrokerState(replica, -1) for replica in isr]
    else:
        partition.new_isr = isr
    data = AlterPartitionRequest.TopicData(topic, topic_id, [partition])
    return client.call(AlterPartitionRequest(0, epoch, [data]), version, AlterPartitionResponse)


@each_version(ApiKey.ALTER_PARTITION)
def test_in_sync_replicas_are_changed_by_the_leader(broker: RawClient, topic: str, version: int) -> None:
    broker.create_topic(topic, 1)
    topic_id = broker.metadata(topic, 10).topic_id
    epoch = _epoch(broker)
    (found,) = _alter(broker, topic, topic_id, version, isr=[0], epoch=epoch).topics
    if version >= BY_ID:
        assert found.topic_id == topic_id
    else:
        assert found.topic_name == topic
    (same,) = found.partitions
    assert (same.error_code, same.leader_id, same.leader_epoch, same.isr) == (ErrorCode.NONE, 0, 0, [0])
    (found,) = _alter(broker, topic, topic_id, version, isr=[0, 7], epoch=epoch).topics
    refused = ErrorCode.INELIGIBLE_REPLICA if version >= BY_ID else ErrorCode.OPERATION_NOT_ATTEMPTED
    assert found.partitions[0].error_code == refused
    (found,) = _alter(broker, topic, topic_id, version, isr=[0], leader_epoch=9, epoch=epoch).topics
    assert found.partitions[0].error_code == ErrorCode.NOT_CONTROLLER  # the leader knows more than the controller
    stale = _alter(broker, topic, topic_id, version, isr=[0], epoch=-1)
    assert (stale.error_code, stale.topics) == (ErrorCode.STALE_BROKER_EPOCH, [])


@each_version(ApiKey.ALTER_PARTITION)
def test_in_sync_replicas_of_nothing(broker: RawClient, topic: str, version: int) -> None:
    (found,) = _alter(broker, topic, random_uuid(), version, isr=[0], epoch=_epoch(broker)).topics
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if version >= BY_ID else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert found.partitions[0].error_code == unknown


@each_version(ApiKey.CONTROLLED_SHUTDOWN)
def test_a_broker_that_is_alone_has_nothing_to_move(broker: RawClient, version: int) -> None:
    answer = broker.call(ControlledShutdownRequest(7, -1), version, ControlledShutdownResponse)
    assert answer.error_code == ErrorCode.BROKER_NOT_AVAILABLE
    if version >= 2:
        answer = broker.call(ControlledShutdownRequest(0, 0), version, ControlledShutdownResponse)
        assert answer.error_code == ErrorCode.STALE_BROKER_EPOCH
    epoch = _epoch(broker)
    answer = broker.call(ControlledShutdownRequest(0, epoch), version, ControlledShutdownResponse)
    assert (answer.error_code, answer.remaining_partitions) == (ErrorCode.NONE, [])
