"""UpdateMetadata is merged into the image as Kafka's ZkMetadataCache does (MetadataCacheTest)."""

from __future__ import annotations

import pytest

from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.metadata.metadata_image import BrokerMetadata, MetadataImage, PartitionMetadata
from barnabas.protocol.messages.inter_broker import UpdateMetadataRequest
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.protocol.uuid import ZERO_UUID, random_uuid

PartitionState = UpdateMetadataRequest.UpdateMetadataPartitionState
TopicState = UpdateMetadataRequest.UpdateMetadataTopicState
LiveBroker = UpdateMetadataRequest.UpdateMetadataBroker
Endpoint = UpdateMetadataRequest.UpdateMetadataEndpoint


def partition(index: int, leader: int = 0, epoch: int = 0, offline: tuple[int, ...] = ()) -> PartitionState:
    return PartitionState(
        partition_index=index,
        leader=leader,
        leader_epoch=epoch,
        isr=[0],
        zk_version=7,
        replicas=[0, 1],
        offline_replicas=list(offline),
    )


def request(*topics: TopicState, controller_id: int = 0, brokers: tuple[int, ...] = (0, 1)) -> UpdateMetadataRequest:
    live = [
        LiveBroker(id=b, rack=None, endpoints=[Endpoint(port=9092, host=f"h{b}", listener="PLAINTEXT")])
        for b in brokers
    ]
    return UpdateMetadataRequest(controller_id=controller_id, topic_states=list(topics), live_brokers=live)


def test_an_update_replaces_brokers_and_merges_partitions() -> None:
    cache = MetadataCache(0, "cluster")
    assert cache.image == MetadataImage(cluster_id="cluster")
    orders, other = random_uuid(), random_uuid()
    assert cache.update_metadata(request(TopicState("orders", orders, [partition(1), partition(0)]))) == []
    first = cache.image
    assert (first.version, first.controller_id, first.cluster_id) == (1, 0, "cluster")
    assert first.brokers[1] == BrokerMetadata(1, -1, None, {"PLAINTEXT": ("h1", 9092)})
    assert first.endpoint(1, "PLAINTEXT") == ("h1", 9092)
    assert first.endpoint(1, "SSL") is first.endpoint(2, "PLAINTEXT") is None
    assert [found.partition for found in first.topics["orders"].partitions] == [0, 1]
    assert first.topics["orders"].partition(1) == PartitionMetadata(1, 0, 0, (0, 1), (0,), (), 7)

    changed = request(
        TopicState("orders", orders, [partition(1, leader=-1, epoch=3, offline=(0,)), partition(2)]),
        TopicState("other", other, [partition(0)]),
        controller_id=1,
        brokers=(1,),
    )
    cache.update_metadata(changed)
    second = cache.image
    assert second.version == 2
    assert set(second.brokers) == {1}
    assert second.controller_id == 1
    assert second.partition(TopicPartition("orders", 0)) == first.partition(TopicPartition("orders", 0))
    moved = second.partition(TopicPartition("orders", 1))
    assert moved is not None
    assert (moved.leader, moved.leader_epoch, moved.offline_replicas) == (-1, 3, (0,))
    assert second.topic_names == {orders: "orders", other: "other"}
    # who took the first image still has it
    assert set(first.topics) == {"orders"}
    assert len(first.topics["orders"].partitions) == 2


def test_leader_minus_two_deletes_partitions_and_at_last_the_topic() -> None:
    cache = MetadataCache(0)
    topic_id = random_uuid()
    cache.update_metadata(request(TopicState("orders", topic_id, [partition(0), partition(1)])))
    deleted = cache.update_metadata(request(TopicState("orders", topic_id, [partition(0, leader=-2)])))
    assert deleted == [TopicPartition("orders", 0)]
    topic = cache.image.topics["orders"]
    assert topic.partition(0) is None
    assert topic.partition(1) is not None
    assert topic.partition(5) is topic.partition(-1) is None
    cache.update_metadata(request(TopicState("orders", topic_id, [partition(1, leader=-2)])))
    assert not cache.contains("orders")
    assert cache.image.topic_names == {}
    unknown = cache.update_metadata(request(TopicState("nothing", random_uuid(), [partition(0, leader=-2)])))
    assert unknown == [TopicPartition("nothing", 0)]


def test_topic_ids_follow_the_controller() -> None:
    cache = MetadataCache(0)
    first, second = random_uuid(), random_uuid()
    cache.update_metadata(request(TopicState("orders", first, [partition(0)])))
    cache.update_metadata(request(TopicState("orders", second, [partition(0)])))
    assert cache.image.topic_names == {second: "orders"}
    # a controller that knows no ids, as in a cluster that is being downgraded
    cache.update_metadata(request(TopicState("orders", ZERO_UUID, [partition(0)])))
    assert cache.image.topics["orders"].topic_id == ZERO_UUID
    assert cache.image.topic_names == {}


def test_an_update_without_partitions_keeps_the_topics() -> None:
    cache = MetadataCache(0)
    cache.update_metadata(request(TopicState("orders", random_uuid(), [partition(0)])))
    topics = cache.image.topics
    cache.update_metadata(request(controller_id=-1, brokers=()))
    assert cache.image.topics is topics
    assert cache.image.controller_id == -1
    assert cache.image.brokers == {}


def test_requests_of_before_version_5_name_the_topic_in_each_partition() -> None:
    cache = MetadataCache(0)
    old = partition(3)
    old.topic_name = "orders"
    cache.update_metadata(UpdateMetadataRequest(ungrouped_partition_states=[old]))
    assert cache.image.partition(TopicPartition("orders", 3)) is not None


def test_subscribers_see_both_images_after_the_update() -> None:
    cache = MetadataCache(0)
    seen: list[tuple[int, int, bool]] = []
    cache.subscribe(lambda old, new: seen.append((old.version, new.version, cache.image is new)))
    cache.subscribe(lambda old, new: seen.append((old.version, new.version, "orders" in new.topics)))
    cache.update_metadata(request(TopicState("orders", random_uuid(), [partition(0)])))
    assert seen == [(0, 1, True), (0, 1, True)]


def test_different_listeners_are_reported(caplog: pytest.LogCaptureFixture) -> None:
    cache = MetadataCache(0)
    odd = request()
    odd.live_brokers[1].endpoints[0].listener = "INTERNAL"
    cache.update_metadata(odd)
    assert "Listeners are not identical across brokers" in caplog.text


def test_a_controller_may_tell_of_some_partitions_only() -> None:
    cache = MetadataCache(0)
    cache.update_metadata(request(TopicState("orders", random_uuid(), [partition(number) for number in (7, 2, 3)])))
    found = [cache.image.partition(TopicPartition("orders", number)) for number in range(-1, 9)]
    assert [each.partition for each in found if each is not None] == [2, 3, 7]
