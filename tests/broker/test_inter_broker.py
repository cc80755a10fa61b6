"""The controller's orders over the wire: LeaderAndIsr, StopReplica, UpdateMetadata, in every version."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.inter_broker import LeaderAndIsrResponse
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.protocol.uuid import ZERO_UUID, random_uuid
from tests.broker.versions import each_version
from tests.support.raw_client import RawClient, make_batch
from tests.support.raw_controller import RawController, broker_entry
from tests.support.server_fixtures import AGAINST_KAFKA, Server

BY_ID = 5


@pytest.fixture
def controller(ruled_server: Server) -> Iterator[RawController]:
    with RawClient(ruled_server) as client:
        yield RawController(client)


def partition_errors(response: LeaderAndIsrResponse, version: int) -> list[tuple[object, int, int]]:
    """(topic name, or id since v5; partition; error)."""
    if version < BY_ID:
        return [(each.topic_name, each.partition_index, each.error_code) for each in response.partition_errors]
    return [
        (topic.topic_id, each.partition_index, each.error_code)
        for topic in response.topics
        for each in topic.partition_errors
    ]


@each_version(ApiKey.LEADER_AND_ISR)
def test_a_broker_leads_what_it_is_told_to(controller: RawController, topic: str, version: int) -> None:
    topic_id = random_uuid() if version >= BY_ID else ZERO_UUID
    name = topic_id if version >= BY_ID else topic
    controller.tell(topic, [broker_entry(7, "host-7", 9092)], topic_id=topic_id)
    told = controller.lead(topic, topic_id=topic_id, version=version)
    assert (told.error_code, partition_errors(told, version)) == (ErrorCode.NONE, [(name, 0, ErrorCode.NONE)])
    assert controller.client.produce_values(topic, b"one", b"two") == 0
    followed = controller.lead(topic, leader=7, leader_epoch=2, replicas=(0, 7), topic_id=topic_id, version=version)
    assert partition_errors(followed, version) == [(name, 0, ErrorCode.NONE)]
    refused = controller.client.produce(topic, make_batch([b"three"]))
    assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@each_version(ApiKey.STOP_REPLICA)
def test_a_stopped_replica_is_gone(controller: RawController, topic: str, version: int) -> None:
    controller.create(topic, partition=3)
    stopped = controller.stop(topic, partition=3, version=version)
    assert stopped.error_code == ErrorCode.NONE
    (result,) = stopped.partition_errors
    assert (result.topic_name, result.partition_index, result.error_code) == (topic, 3, ErrorCode.NONE)
    gone = controller.client.produce(topic, make_batch([b"late"]), partition=3)
    assert gone.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    controller.lead(topic, partition=3)
    assert controller.client.produce_values(topic, b"first again", partition=3) == 0, "its log was deleted"


@each_version(ApiKey.UPDATE_METADATA)
def test_a_broker_learns_what_it_is_told(controller: RawController, topic: str, version: int) -> None:
    client = controller.client
    brokers = [broker_entry(number, f"host-{number}", 9092, version=version) for number in (0, 7)]
    told = controller.tell(topic, brokers, leader=7, leader_epoch=5, isr=(7,), replicas=(7, 0), version=version)
    assert told.error_code == ErrorCode.NONE
    answer = client.call(MetadataRequest([MetadataRequest.MetadataRequestTopic(name=topic)]), 9, MetadataResponse)
    assert sorted((each.node_id, each.host, each.port) for each in answer.brokers) == [
        (0, "host-0", 9092),
        (7, "host-7", 9092),
    ]
    (partition,) = answer.topics[0].partitions
    assert (partition.leader_id, partition.leader_epoch, partition.isr_nodes) == (7, 5, [7])
    controller.tell(topic, brokers, leader=-2, version=version)
    assert client.metadata(topic).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_an_earlier_controller_is_refused(controller: RawController, topic: str) -> None:
    controller.create(topic)
    earlier = RawController(controller.client, epoch=controller.epoch - 1)
    for version in (4, 7):
        refused = earlier.lead(topic, leader_epoch=9, version=version)
        assert refused.error_code == ErrorCode.STALE_CONTROLLER_EPOCH
        assert [code for _, _, code in partition_errors(refused, version)] == [ErrorCode.STALE_CONTROLLER_EPOCH]
    assert earlier.stop(topic).error_code == ErrorCode.STALE_CONTROLLER_EPOCH
    assert earlier.tell(topic, []).error_code == ErrorCode.STALE_CONTROLLER_EPOCH
    assert controller.client.produce_values(topic, b"still led") == 0


def test_a_request_for_an_earlier_life_is_refused(controller: RawController, topic: str) -> None:
    controller.create(topic)
    for version in (2, 7):
        refused = controller.lead(topic, leader=7, leader_epoch=9, broker_epoch=0, version=version)
        assert refused.error_code == ErrorCode.STALE_BROKER_EPOCH
        assert [code for _, _, code in partition_errors(refused, version)] == [ErrorCode.STALE_BROKER_EPOCH]
    assert controller.stop(topic, broker_epoch=0).error_code == ErrorCode.STALE_BROKER_EPOCH
    assert controller.tell(topic, [], broker_epoch=0).error_code == ErrorCode.STALE_BROKER_EPOCH
    assert controller.client.produce_values(topic, b"still led") == 0
    early = controller.lead(topic, leader_epoch=2, broker_epoch=2**62)
    assert early.error_code == ErrorCode.NONE, "the controller may know of a registration before the broker does"


def test_a_partition_elsewhere_or_of_an_earlier_leader_epoch_is_refused_alone(
    controller: RawController, topic: str
) -> None:
    elsewhere = controller.lead(topic, leader=7, isr=(7,), replicas=(7, 8), version=4)
    assert elsewhere.error_code == ErrorCode.NONE
    assert partition_errors(elsewhere, 4) == [(topic, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
    controller.lead(topic, leader_epoch=5)
    earlier = controller.lead(topic, leader_epoch=4, version=4)
    assert partition_errors(earlier, 4) == [(topic, 0, ErrorCode.STALE_CONTROLLER_EPOCH)]
    fenced = controller.stop(topic, leader_epoch=4)
    assert (fenced.error_code, fenced.partition_errors[0].error_code) == (
        ErrorCode.NONE,
        ErrorCode.FENCED_LEADER_EPOCH,
    )


@pytest.mark.skipif(AGAINST_KAFKA, reason="Apache Kafka trusts whoever may send this")
@pytest.mark.parametrize("name", ["../outside", "a/b", "..", "", "x" * 250])
def test_no_name_becomes_a_directory_that_no_topic_could_have(
    ruled_server: Server, controller: RawController, name: str
) -> None:
    for version in (0, 7):
        refused = controller.lead(name, version=version)
        assert refused.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    for version in (4, 8):
        assert controller.tell(name, [], version=version).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert not (ruled_server.data_dir.parent / "outside-0").exists()


@pytest.mark.skipif(AGAINST_KAFKA, reason="Apache Kafka trusts whoever may send this")
def test_no_number_becomes_a_directory_that_no_partition_could_have(
    ruled_server: Server, controller: RawController, topic: str
) -> None:
    assert controller.lead(topic, partition=-1).error_code == ErrorCode.INVALID_REQUEST
    assert controller.lead(topic, leader_epoch=-7).error_code == ErrorCode.INVALID_REQUEST
    assert not list(ruled_server.data_dir.glob(f"{topic}*"))
