"""The controller against a store without threads and brokers that take note: topics, brokers, deletion, fencing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from barnabas.config.listeners import EndPoint
from barnabas.controller.controller import NO_CONTROLLER
from barnabas.protocol.codes import ElectionType
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.inter_broker import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.protocol.uuid import random_uuid
from barnabas.zk.kafka_zk_client import KafkaZkClient
from barnabas.zk.znodes.broker_zk_data import BrokerInfo, ControllerEpochZNode, FinalizedFeatures
from barnabas.zk.znodes.config_znodes import ConfigEntityType
from barnabas.zk.znodes.topic_zk_data import (
    LeaderAndIsr,
    LeaderIsrAndControllerEpoch,
    PreferredReplicaElectionZNode,
    ReplicaAssignment,
    TopicZNode,
)
from tests.support.controller_cluster import LISTENER, Cluster, RecordingBroker


def leader_and_isr_states(requests: Iterable[Any]) -> list[tuple[str, int, int, int, bool]]:
    """(topic, partition, leader, leader epoch, is new) of all LeaderAndIsr requests."""
    return [
        (topic.topic_name, state.partition_index, state.leader, state.leader_epoch, state.is_new)
        for request in requests
        if isinstance(request, LeaderAndIsrRequest)
        for topic in request.topic_states
        for state in topic.partition_states
    ]


def kinds(requests: Iterable[Any]) -> list[str]:
    return [type(request).__name__ for request in requests]


def test_a_single_broker_becomes_controller_and_leads_a_new_topic() -> None:
    cluster = Cluster(0)
    broker = cluster.brokers[0]
    assert broker.controller.is_active
    assert broker.controller.epoch == 1
    assert broker.zk.controller_id() == 0
    assert broker.zk.controller_epoch() == (1, 1)
    assert broker.zk.finalized_features() == (FinalizedFeatures({}), 0)
    assert cluster.brokers[0].cache.image.controller_id == 0
    assert broker.cache.image.brokers[0].endpoints == {LISTENER: ("localhost", 9092)}
    broker.take()

    topic_id = cluster.create_topic("orders", {0: [0], 1: [0]})
    requests = broker.take()
    # Kafka's order: the partition states are told before the metadata; LeaderAndIsr makes the leader first
    assert kinds(requests)[:2] == ["LeaderAndIsrRequest", "UpdateMetadataRequest"]
    first = requests[0]
    assert (first.controller_id, first.controller_epoch, first.broker_epoch) == (0, 1, broker.epoch)
    assert [(leader.broker_id, leader.port) for leader in first.live_leaders] == [(0, 9092)]
    assert first.topic_states[0].topic_id == topic_id
    assert leader_and_isr_states(requests[:1]) == [("orders", 0, 0, 0, True), ("orders", 1, 0, 0, True)]
    assert cluster.leadership("orders", 1) == (0, 0, (0,))
    image = broker.cache.image
    assert image.topic_names[topic_id] == "orders"
    assert [partition.leader for partition in image.topics["orders"].partitions] == [0, 0]


def test_requests_encode_in_the_versions_of_3_9() -> None:
    cluster = Cluster(0)
    cluster.create_topic("orders", {0: [0]})
    cluster.brokers[0].zk.topics.request_deletion("orders")
    cluster.settle()
    versions: dict[type, int] = {LeaderAndIsrRequest: 7, UpdateMetadataRequest: 8, StopReplicaRequest: 4}
    requests = cluster.brokers[0].take()
    assert {type(request) for request in requests} == set(versions)
    for request in requests:
        version = versions[type(request)]
        decoded, _ = type(request).decode(b"".join(bytes(piece) for piece in request.encode(version)), version)
        assert decoded.encode(version) == request.encode(version)


def test_topics_and_leaders_come_back_after_a_restart() -> None:
    cluster = Cluster(0)
    topic_id = cluster.create_topic("orders", {0: [0], 1: [0]})
    old_epoch = cluster.brokers[0].epoch
    cluster.brokers[0].stop()

    broker = cluster.start(0)
    cluster.settle()
    assert broker.controller.epoch == 2
    assert broker.epoch > old_epoch
    assert broker.topics_when_ready == [{"orders"}]  # said once, when it leads again what it led before
    assert broker.zk.controller_epoch() == (2, 2)
    requests = broker.take()
    # brokers learn of each other, then of what they host; the broker was back before anyone saw it gone,
    # so its leadership stands, in the same epoch, and isn't written again
    assert kinds(requests)[:2] == ["UpdateMetadataRequest", "LeaderAndIsrRequest"]
    assert leader_and_isr_states(requests) == [("orders", 0, 0, 0, False), ("orders", 1, 0, 0, False)]
    assert cluster.state("orders") == LeaderIsrAndControllerEpoch(LeaderAndIsr(0, 0, (0,)), 1)
    image = broker.cache.image
    assert image.topic_names == {topic_id: "orders"}
    assert [partition.leader for partition in image.topics["orders"].partitions] == [0, 0]


def test_a_topic_created_while_the_controller_was_down_is_led_at_start() -> None:
    cluster = Cluster(0)
    cluster.brokers[0].stop()
    session = cluster.store.new_session()
    KafkaZkClient(session, cluster.clock).topics.create("late", random_uuid(), {0: [0]}, {})
    session.close()
    broker = cluster.start(0)
    cluster.settle()
    assert cluster.leadership("late") == (0, 0, (0,))
    assert ("late", 0, 0, 0, True) in leader_and_isr_states(broker.take())


def test_partitions_are_added() -> None:
    cluster = Cluster(0)
    topic_id = cluster.create_topic("orders", {0: [0]})
    broker = cluster.brokers[0]
    for count in (3, 5):  # the second growth proves that the watch was set again
        broker.take()
        grown = {TopicPartition("orders", index): ReplicaAssignment((0,)) for index in range(count)}
        broker.zk.topics.set_assignment("orders", topic_id, grown)
        cluster.settle()
        assert len(broker.cache.image.topics["orders"].partitions) == count
        assert all(is_new for *_, is_new in leader_and_isr_states(broker.take()))


def test_deleting_a_topic() -> None:
    cluster = Cluster(0)
    first_id = cluster.create_topic("orders", {0: [0], 1: [0]}, **{"retention.ms": "1000"})
    cluster.create_topic("kept", {0: [0]})
    broker = cluster.brokers[0]
    broker.take()
    broker.zk.topics.request_deletion("orders")
    cluster.settle()

    stops = [request for request in broker.take() if isinstance(request, StopReplicaRequest)]
    described = [
        [(state.partition_index, state.leader_epoch, state.delete_partition) for state in topic.partition_states]
        for request in stops
        for topic in request.topic_states
    ]
    assert described == [[(0, -2, False), (1, -2, False)], [(0, -2, True), (1, -2, True)]]
    assert set(broker.cache.image.topics) == {"kept"}
    assert broker.zk.topics.all_topics() == {"kept"}
    assert broker.zk.topics.deletions() == set()
    assert broker.zk.configs.entities(ConfigEntityType.TOPIC) == ["kept"]

    second_id = cluster.create_topic("orders", {0: [0]})
    assert second_id != first_id
    assert cluster.leadership("orders") == (0, 0, (0,))
    assert set(broker.cache.image.topic_names.values()) == {"kept", "orders"}
    assert first_id not in broker.cache.image.topic_names


def test_deletion_is_tried_again_when_the_broker_is_back() -> None:
    cluster = Cluster(0, 1)
    cluster.create_topic("orders", {0: [0, 1]})
    cluster.brokers[1].stop()
    cluster.settle()
    cluster.brokers[0].zk.topics.request_deletion("orders")
    cluster.settle()
    assert cluster.brokers[0].zk.topics.all_topics() == {"orders"}
    assert "orders" not in cluster.brokers[0].cache.image.topics  # nobody is served from it any more
    cluster.start(1)
    cluster.settle()
    assert cluster.brokers[0].zk.topics.all_topics() == set()
    deleted = [r for r in cluster.brokers[1].take() if isinstance(r, StopReplicaRequest)]
    assert deleted[-1].topic_states[0].partition_states[0].delete_partition


def test_a_replica_that_can_not_be_deleted_holds_up_the_deletion() -> None:
    cluster = Cluster(0)
    cluster.create_topic("orders", {0: [0]})
    broker = cluster.brokers[0]
    broker.stop_replica_error = ErrorCode.KAFKA_STORAGE_ERROR
    broker.zk.topics.request_deletion("orders")
    cluster.settle()
    assert broker.zk.topics.all_topics() == {"orders"}
    broker.stop_replica_error = ErrorCode.NONE
    broker.stop()
    broker = cluster.start(0)  # a new controller goes on with what is in the store
    cluster.settle()
    assert broker.zk.topics.all_topics() == set()


def test_deletion_interrupted_by_a_restart_goes_on() -> None:
    cluster = Cluster(0)
    cluster.create_topic("orders", {0: [0]})
    cluster.brokers[0].zk.topics.request_deletion("orders")
    cluster.brokers[0].stop()
    broker = cluster.start(0)
    cluster.settle()
    assert broker.zk.topics.all_topics() == set()
    assert broker.cache.image.topics == {}


def test_wishes_to_delete_unknown_topics_are_dropped_and_all_if_deletion_is_disabled() -> None:
    cluster = Cluster(0)
    cluster.brokers[0].zk.topics.request_deletion("nothing")
    cluster.settle()
    assert cluster.brokers[0].zk.topics.deletions() == set()

    cluster = Cluster(0, delete_topic_enable=False)
    cluster.create_topic("orders", {0: [0]})
    cluster.brokers[0].zk.topics.request_deletion("orders")
    cluster.settle()
    assert cluster.brokers[0].zk.topics.deletions() == set()
    assert cluster.leadership("orders") == (0, 0, (0,))


def test_partitions_added_to_a_topic_being_deleted_are_taken_back() -> None:
    cluster = Cluster(0, 1)
    topic_id = cluster.create_topic("orders", {0: [0, 1]})
    cluster.brokers[1].stop()  # keeps the deletion from ending
    cluster.settle()
    broker = cluster.brokers[0]
    broker.zk.topics.request_deletion("orders")
    cluster.settle()
    grown = {TopicPartition("orders", index): ReplicaAssignment((0, 1)) for index in range(2)}
    broker.zk.topics.set_assignment("orders", topic_id, grown)
    cluster.settle()
    assert len(broker.zk.topics.assignments(["orders"])[0].assignment) == 1


def test_leaders_move_when_a_broker_dies_and_it_follows_when_it_is_back() -> None:
    cluster = Cluster(0, 1, 2)
    cluster.create_topic("orders", {0: [1, 2], 1: [1]})
    assert cluster.leadership("orders", 0) == (1, 0, (1, 2))
    cluster.brokers[2].take()
    cluster.brokers[1].stop()
    cluster.settle()
    assert cluster.leadership("orders", 0) == (2, 1, (2,))
    assert cluster.leadership("orders", 1) == (-1, 1, (1,))  # the last in-sync replica stays in sync
    image = cluster.brokers[2].cache.image
    assert set(image.brokers) == {0, 2}
    assert image.topics["orders"].partitions[0].offline_replicas == (1,)
    assert image.topics["orders"].partitions[1].leader == -1

    cluster.start(1)
    cluster.settle()
    assert cluster.leadership("orders", 0) == (2, 1, (2,))
    assert cluster.leadership("orders", 1) == (1, 2, (1,))
    assert ("orders", 0, 2, 1, False) in leader_and_isr_states(cluster.brokers[1].take())


def test_an_unclean_leader_is_elected_only_where_that_is_allowed() -> None:
    cluster = Cluster(0, 1, 2)
    cluster.create_topic("clean", {0: [1, 2]})
    cluster.create_topic("unclean", {0: [1, 2]}, **{"unclean.leader.election.enable": "true"})
    cluster.brokers[2].stop()
    cluster.settle()
    cluster.brokers[1].stop()
    cluster.settle()
    assert cluster.leadership("clean")[0] == cluster.leadership("unclean")[0] == -1
    cluster.start(2)
    cluster.settle()
    assert cluster.leadership("clean")[0] == -1
    state = cluster.state("unclean").leader_and_isr
    assert (state.leader, state.isr, state.leader_recovery_state.name) == (2, (2,), "RECOVERING")

    results: list[Any] = []
    partition = TopicPartition("clean", 0)
    cluster.active.controller.elect_leaders([partition], ElectionType.UNCLEAN, results.append)
    cluster.settle()
    assert results == [{partition: 2}]


def test_another_broker_takes_over_and_fences_the_former_controller() -> None:
    cluster = Cluster(0, 1)
    former, other = cluster.brokers[0], cluster.brokers[1]
    cluster.create_topic("orders", {0: [0, 1]})
    assert former.controller.is_active
    assert not other.controller.is_active
    assert other.controller.active_controller_id == 0

    # the former controller loses its session without noticing, while a topic is being created
    former.zk.topics.create("late", random_uuid(), {0: [0, 1]}, {})
    cluster.store.deliver()
    expired = cluster.store.table.end_session(former.session.session_id)
    cluster.store.queue(expired)
    cluster.store.deliver()
    other.controller.run_pending()
    assert other.controller.epoch == 2
    former.take()
    former.controller.run_pending()  # still has the event of the new topic
    assert leader_and_isr_states(former.take()) == []
    cluster.settle()
    assert cluster.active is other
    assert former.controller.active_controller_id == 1
    assert cluster.state("late").controller_epoch == 2


def test_an_expired_session_registers_again_and_stands_for_election() -> None:
    cluster = Cluster(0)
    cluster.create_topic("orders", {0: [0]})
    broker = cluster.brokers[0]
    epoch = broker.epoch
    broker.session.expire()
    cluster.settle()
    assert broker.epoch > epoch
    assert broker.controller.is_active
    assert broker.controller.epoch == 2
    assert cluster.leadership("orders")[0] == 0
    cluster.create_topic("after", {0: [0]})
    assert broker.cache.image.topics["after"].partitions[0].leader == 0


def test_losing_the_controller_znode_means_a_new_election() -> None:
    cluster = Cluster(0, 1)
    cluster.brokers[0].session.delete("/controller")
    cluster.settle()
    assert cluster.active.controller.epoch == 2
    assert sum(broker.controller.is_active for broker in cluster.brokers.values()) == 1
    cluster.create_topic("orders", {0: [0]})
    assert cluster.leadership("orders") == (0, 0, (0,))


def test_a_controller_that_fails_to_take_over_steps_down(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster()
    broker = cluster.start(0)
    session = cluster.store.new_session()
    session.create("/feature", b"not json")
    cluster.store.deliver()
    broker.controller.run_pending()
    assert "Trigger controller movement immediately" in caplog.text
    assert broker.controller.active_controller_id == NO_CONTROLLER
    session.delete("/feature")
    cluster.settle()
    assert broker.controller.is_active


NOT_UNDERSTOOD = (
    b"",
    b"not json",
    b"[1]",
    b'{"version":9}',
    b'{"version":3,"partitions":{"0":"one"}}',
    b'{"partitions":7}',
)


@pytest.mark.parametrize("data", NOT_UNDERSTOOD)
def test_a_topic_that_is_not_understood_is_left_out_and_its_data_stay(
    data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = Cluster(0, 1)
    cluster.create_topic("sound", {0: [0, 1]})
    session = cluster.store.new_session()
    session.create("/brokers/topics/broken", data)
    cluster.settle()
    cluster.create_topic("later", {0: [1, 0]})
    cluster.active.stop()  # and for the next controller
    cluster.settle()
    assert cluster.active.controller.is_active
    assert cluster.leadership("later")[0] == cluster.active.id
    assert set(cluster.active.cache.image.topics) == {"sound", "later"}
    assert session.get("/brokers/topics/broken").data == data
    assert "Leaving out /brokers/topics/broken" in caplog.text


@pytest.mark.parametrize(
    "data", [b"not json", b'{"leader":0}', b'{"version":2,"leader":0}', b'{"leader":0,"leader_epoch":0,"isr":"x"}']
)
def test_a_state_that_is_not_understood_is_never_written_over(data: bytes, caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster(0, 1)
    cluster.create_topic("orders", {0: [0, 1], 1: [1, 0]})
    session = cluster.store.new_session()
    session.set("/brokers/topics/orders/partitions/0/state", data)
    dead = cluster.active
    dead.stop()
    cluster.settle()
    living = cluster.active
    assert cluster.leadership("orders", 1)[0] == living.id
    assert session.get("/brokers/topics/orders/partitions/0/state").data == data
    assert "Leaving out /brokers/topics/orders/partitions/0/state" in caplog.text


def test_notices_that_are_not_understood_are_removed() -> None:
    cluster = Cluster(0, 1)
    cluster.create_topic("orders", {0: [0, 1]})
    session = cluster.store.new_session()
    paths = ["/isr_change_notification/isr_change_", "/log_dir_event_notification/log_dir_event_"]
    for path in paths:
        for data in (b"not json", b"{}", b'{"version":1,"partitions":7,"broker":"x"}'):
            session.create(path, data, sequential=True)
    session.create("/admin/preferred_replica_election", b"not json")
    cluster.settle()
    for path in paths:
        assert session.children(path.rpartition("/")[0]).names == []
    assert session.exists("/admin/preferred_replica_election") is None
    cluster.create_topic("after", {0: [1, 0]})
    assert cluster.leadership("after")[0] == 1


def test_a_broker_whose_registration_is_not_understood_counts_as_dead(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster(0, 1)
    cluster.create_topic("orders", {0: [0, 1]})
    session = cluster.store.new_session()
    session.create("/brokers/ids/7", b'{"version":9}', ephemeral=True)
    session.create("/brokers/ids/seven", b"{}", ephemeral=True)
    cluster.settle()
    assert set(cluster.active.cache.image.brokers) == {0, 1}
    assert "Leaving out /brokers/ids/7" in caplog.text
    cluster.create_topic("after", {0: [1, 0]})
    assert cluster.leadership("after")[0] == 1


def test_preferred_leaders_are_elected_on_request_and_by_rebalancing() -> None:
    cluster = Cluster(0, 1)
    cluster.create_topic("orders", {0: [1, 0], 1: [0, 1]})
    cluster.brokers[1].stop()
    cluster.settle()
    cluster.start(1)
    cluster.settle()
    partition = TopicPartition("orders", 0)
    assert cluster.leadership("orders", 0)[0] == 0
    results: list[Any] = []
    controller = cluster.active.controller

    def elect(*partitions: TopicPartition) -> dict[TopicPartition, int | tuple[ErrorCode, str]]:
        results.clear()
        controller.elect_leaders(partitions, ElectionType.PREFERRED, results.append)
        cluster.settle()
        (answer,) = results
        return {tp: (r.code, r.message) if isinstance(r, ApiError) else r for tp, r in answer.items()}

    not_in_sync = elect(partition, TopicPartition("orders", 1), TopicPartition("nothing", 0))
    assert not_in_sync[partition] == (
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        "Failed to elect leader for partition orders-0 under strategy PreferredReplicaPartitionLeaderElectionStrategy",
    )
    assert not_in_sync[TopicPartition("orders", 1)] == (
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.ELECTION_NOT_NEEDED.message,
    )
    assert not_in_sync[TopicPartition("nothing", 0)] == (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "The partition does not exist.",
    )

    join_isr(cluster, partition, leader=0, isr=[0, 1])
    assert elect(partition) == {partition: 1}
    assert cluster.leadership("orders", 0)[0] == 1

    # rebalancing does the same by itself
    cluster.brokers[1].stop()
    cluster.settle()
    cluster.start(1)
    cluster.settle()
    join_isr(cluster, partition, leader=0, isr=[0, 1])
    cluster.scheduler.tick(5_000)
    cluster.settle()
    assert cluster.leadership("orders", 0)[0] == 1
    assert cluster.scheduler.waiting == ["auto-leader-rebalance-task"]


def join_isr(cluster: Cluster, partition: TopicPartition, leader: int, isr: list[int]) -> AlterPartitionResponse:
    """What a leader asks for when followers caught up."""
    broker = cluster.brokers[leader]
    state = cluster.state(*partition).leader_and_isr
    request = alter_partition(broker, cluster, partition, state, isr)
    responses: list[AlterPartitionResponse] = []
    cluster.active.controller.alter_partitions(request, 2, responses.append)
    cluster.settle()
    (response,) = responses
    return response


def alter_partition(
    broker: RecordingBroker, cluster: Cluster, partition: TopicPartition, state: LeaderAndIsr, isr: list[int]
) -> AlterPartitionRequest:
    data = AlterPartitionRequest.PartitionData(
        partition_index=partition.partition,
        leader_epoch=state.leader_epoch,
        new_isr=isr,
        partition_epoch=state.partition_epoch,
    )
    topic_id = cluster.active.zk.topics.assignments([partition.topic])[0].topic_id
    topic = AlterPartitionRequest.TopicData(topic_id=topic_id or bytes(16), partitions=[data])
    return AlterPartitionRequest(broker_id=broker.id, broker_epoch=broker.epoch, topics=[topic])


def test_leaders_change_in_sync_replicas() -> None:
    cluster = Cluster(0, 1)
    cluster.create_topic("orders", {0: [0, 1]})
    partition = TopicPartition("orders", 0)
    state = cluster.state("orders").leader_and_isr
    answer = join_isr(cluster, partition, leader=0, isr=[0]).topics[0].partitions[0]
    assert (answer.error_code, answer.isr, answer.partition_epoch) == (0, [0], state.partition_epoch + 1)
    assert cluster.brokers[1].cache.image.topics["orders"].partitions[0].isr == (0,)

    def code(request: AlterPartitionRequest) -> ErrorCode:
        responses: list[AlterPartitionResponse] = []
        cluster.active.controller.alter_partitions(request, 2, responses.append)
        cluster.settle()
        (response,) = responses
        if response.error_code:
            return ErrorCode(response.error_code)
        return ErrorCode(response.topics[0].partitions[0].error_code)

    broker = cluster.brokers[0]
    stale = alter_partition(broker, cluster, partition, state, [0, 1])  # of the former partition epoch
    assert code(stale) is ErrorCode.INVALID_UPDATE_VERSION
    now = cluster.state("orders").leader_and_isr
    again = alter_partition(broker, cluster, partition, state, [0])  # what is so already
    assert code(again) is ErrorCode.NONE
    future = alter_partition(broker, cluster, partition, now.new_epoch(), [0])
    assert code(future) is ErrorCode.NOT_CONTROLLER
    ineligible = alter_partition(broker, cluster, partition, now, [0, 7])
    assert code(ineligible) is ErrorCode.INELIGIBLE_REPLICA
    unknown = alter_partition(broker, cluster, partition, now, [0, 1])
    unknown.topics[0].topic_id = random_uuid()
    assert code(unknown) is ErrorCode.UNKNOWN_TOPIC_ID
    old_broker = alter_partition(broker, cluster, partition, now, [0, 1])
    old_broker.broker_epoch -= 1
    assert code(old_broker) is ErrorCode.STALE_BROKER_EPOCH


def test_a_broker_that_has_returned_since_its_fetch_does_not_join() -> None:
    cluster = Cluster(0, 1)
    cluster.create_topic("orders", {0: [0, 1]})
    partition = TopicPartition("orders", 0)
    join_isr(cluster, partition, leader=0, isr=[0])

    def join(epoch: int) -> ErrorCode:
        """Ask for both brokers by version 3, with an epoch of broker 1."""
        request = alter_partition(cluster.brokers[0], cluster, partition, cluster.state("orders").leader_and_isr, [])
        states = [AlterPartitionRequest.BrokerState(0, cluster.brokers[0].epoch)]
        states.append(AlterPartitionRequest.BrokerState(1, epoch))
        request.topics[0].partitions[0].new_isr_with_epochs = states
        responses: list[AlterPartitionResponse] = []
        cluster.active.controller.alter_partitions(request, 3, responses.append)
        cluster.settle()
        (response,) = responses
        return ErrorCode(response.topics[0].partitions[0].error_code)

    assert join(cluster.brokers[1].epoch - 1) is ErrorCode.INELIGIBLE_REPLICA
    assert cluster.leadership("orders")[2] == (0,)
    assert join(cluster.brokers[1].epoch) is ErrorCode.NONE
    assert cluster.leadership("orders")[2] == (0, 1)
    join_isr(cluster, partition, leader=0, isr=[0])
    assert join(-1) is ErrorCode.NONE, "leaders of Apache Kafka with ZooKeeper know no epochs"


def test_a_deposed_controller_answers_a_leader_once() -> None:
    cluster = Cluster(0, 1)
    cluster.create_topic("orders", {0: [0, 1]})
    partition = TopicPartition("orders", 0)
    request = alter_partition(cluster.brokers[0], cluster, partition, cluster.state("orders").leader_and_isr, [0])
    deposed = cluster.active
    deposed.controller.context.epoch_version += 5  # as if another controller had written its epoch
    responses: list[AlterPartitionResponse] = []
    deposed.controller.alter_partitions(request, 2, responses.append)
    cluster.settle()
    assert [ErrorCode(each.error_code) for each in responses] == [ErrorCode.NOT_CONTROLLER]


def test_in_sync_replicas_that_leaders_wrote_themselves() -> None:
    cluster = Cluster(0, 1)
    cluster.create_topic("orders", {0: [0, 1]})
    leader = cluster.brokers[0]
    known = cluster.state("orders")
    written = known._replace(leader_and_isr=known.leader_and_isr._replace(isr=(0,)))
    orders, gone = TopicPartition("orders", 0), TopicPartition("gone", 0)
    assert leader.zk.topics.update_partition_states({orders: written}) == {orders: 1}
    for partitions in ({orders}, {gone}):
        leader.zk.propagate_isr_changes(partitions)
    cluster.settle()
    for broker in cluster.brokers.values():
        partition = broker.cache.image.partition(orders)
        assert partition is not None
        assert (partition.isr, partition.partition_epoch) == ((0,), 1)
        assert broker.cache.image.partition(gone) is None
    assert leader.zk.isr_change_notifications() == []
    leader.stop()
    cluster.settle()
    assert cluster.leadership("orders") == (-1, 1, (0,)), "broker 1 is not in sync, and must not lead"


def test_an_election_asked_for_in_the_store() -> None:
    cluster = Cluster(0, 1)
    cluster.create_topic("orders", {0: [1, 0]})
    cluster.brokers[1].stop()
    cluster.settle()
    cluster.start(1)
    cluster.settle()
    partition = TopicPartition("orders", 0)
    join_isr(cluster, partition, leader=0, isr=[0, 1])
    cluster.active.session.create(PreferredReplicaElectionZNode.path, PreferredReplicaElectionZNode.encode([partition]))
    cluster.settle()
    assert cluster.leadership("orders")[0] == 1
    assert not cluster.active.zk.access.exists(PreferredReplicaElectionZNode.path)


def test_controlled_shutdown_moves_leaders() -> None:
    cluster = Cluster(0, 1)
    cluster.create_topic("orders", {0: [1, 0], 1: [0, 1], 2: [1]})
    answers: list[Any] = []
    controller = cluster.active.controller
    controller.controlled_shutdown(1, cluster.brokers[1].epoch - 1, answers.append)
    cluster.settle()
    assert answers.pop().code is ErrorCode.STALE_BROKER_EPOCH
    controller.controlled_shutdown(7, 1, answers.append)
    cluster.settle()
    assert answers.pop().code is ErrorCode.BROKER_NOT_AVAILABLE
    controller.controlled_shutdown(1, cluster.brokers[1].epoch, answers.append)
    cluster.settle()
    assert answers == [set()]
    assert cluster.leadership("orders", 0)[0] == 0
    assert cluster.leadership("orders", 0)[2] == cluster.leadership("orders", 1)[2] == (0,)
    assert cluster.leadership("orders", 2) == (1, 0, (1,))  # it has nowhere to go
    cluster.brokers[1].controller.controlled_shutdown(1, -1, answers.append)
    cluster.settle()
    assert answers[-1].code is ErrorCode.NOT_CONTROLLER


def test_a_broker_that_refuses_connections_loses_its_leaderships_before_its_session_ends() -> None:
    cluster = Cluster(0, 1, 2)
    cluster.create_topic("orders", {0: [1, 0, 2], 1: [0, 1, 2], 2: [1]})
    broker = cluster.brokers[1]
    for partition in (0, 1):
        join_isr(cluster, TopicPartition("orders", partition), leader=1 - partition, isr=[0, 1, 2])
    broker.become_reachable(False)
    cluster.settle()
    assert cluster.leadership("orders", 0)[0] == 0
    assert cluster.leadership("orders", 0)[2] == cluster.leadership("orders", 1)[2] == (0, 2)
    assert cluster.leadership("orders", 2) == (1, 0, (1,))  # it has nowhere to go
    # A link that was cut, and is whole again: the broker follows, and may lead again.
    broker.become_reachable(True)
    cluster.settle()
    assert ("orders", 0, 0) in [state[:3] for state in leader_and_isr_states(broker.take())]
    join_isr(cluster, TopicPartition("orders", 0), leader=0, isr=[0, 1, 2])
    cluster.active.controller.elect_leaders([TopicPartition("orders", 0)], ElectionType.PREFERRED, lambda _: None)
    cluster.settle()
    assert cluster.leadership("orders", 0)[0] == 1


def test_a_broker_that_has_registered_again_is_not_taken_for_its_former_self() -> None:
    cluster = Cluster(0, 1)
    cluster.create_topic("orders", {0: [1, 0]})
    join_isr(cluster, TopicPartition("orders", 0), leader=1, isr=[0, 1])
    late = list(cluster.brokers[1].channels)
    cluster.brokers[1].stop()
    cluster.settle()
    cluster.start(1)
    cluster.settle()
    join_isr(cluster, TopicPartition("orders", 0), leader=0, isr=[0, 1])
    for _, on_reachability_change in late:
        on_reachability_change(False)
    cluster.settle()
    assert cluster.leadership("orders", 0)[2] == (0, 1)


def test_a_failed_log_directory_moves_leaders_away() -> None:
    cluster = Cluster(0, 1)
    cluster.create_topic("orders", {0: [0, 1], 1: [0, 1]})
    cluster.brokers[0].failed = {TopicPartition("orders", 0)}
    cluster.brokers[0].zk.propagate_log_dir_event(0)
    cluster.settle()
    assert cluster.leadership("orders", 0)[0] == 1
    assert cluster.leadership("orders", 1)[0] == 0
    assert cluster.brokers[1].cache.image.topics["orders"].partitions[0].offline_replicas == (0,)
    assert cluster.active.zk.log_dir_event_notifications() == []


def test_changed_endpoints_reach_every_broker() -> None:
    cluster = Cluster(0, 1)
    moved = BrokerInfo(1, (EndPoint("elsewhere", 1, LISTENER, "PLAINTEXT"),))
    cluster.brokers[1].zk.update_broker_info(moved)
    cluster.settle()
    assert cluster.brokers[0].cache.image.brokers[1].endpoints == {LISTENER: ("elsewhere", 1)}


def test_a_leader_that_writes_its_state_meanwhile_is_not_overwritten() -> None:
    cluster = Cluster(0, 1, 2)
    cluster.create_topic("orders", {0: [1, 2]})
    tp = TopicPartition("orders", 0)
    broker = cluster.active
    other = KafkaZkClient(cluster.store.new_session(), cluster.clock)
    cluster.brokers[1].stop()
    cluster.store.deliver()

    def shrink_isr() -> None:
        state = other.topics.partition_states([tp])[tp].leader_and_isr
        other.topics.update_leader_and_isr({tp: LeaderAndIsr(1, state.leader_epoch, (2,), partition_epoch=0)}, 1, -1)

    # the write comes between the controller's reading and writing of the state
    original = broker.zk.topics.partition_states

    def read_then_interfere(partitions: Any) -> Any:
        found = original(partitions)
        broker.zk.topics.partition_states = original  # type: ignore[method-assign]
        shrink_isr()
        return found

    broker.zk.topics.partition_states = read_then_interfere  # type: ignore[method-assign]
    cluster.settle()
    assert cluster.leadership("orders") == (2, 1, (2,))
    assert cluster.state("orders").leader_and_isr.partition_epoch == 2


def test_topics_of_before_topic_ids_get_one() -> None:
    cluster = Cluster(0)
    old = {TopicPartition("old", 0): ReplicaAssignment((0,))}
    cluster.brokers[0].session.create(TopicZNode.path("old"), TopicZNode.encode(None, old))
    cluster.settle()
    topic_id = cluster.active.zk.topics.assignments(["old"])[0].topic_id
    assert topic_id is not None
    assert cluster.active.cache.image.topics["old"].topic_id == topic_id


def test_a_topic_whose_replicas_are_all_down_waits() -> None:
    cluster = Cluster(0)
    cluster.create_topic("orders", {0: [5]})
    assert cluster.active.zk.topics.partition_states([TopicPartition("orders", 0)]) == {}
    assert "orders" not in cluster.active.cache.image.topics
    cluster.start(5)
    cluster.settle()
    assert cluster.leadership("orders") == (5, 0, (5,))


def test_the_epoch_znode_is_what_apache_kafka_writes() -> None:
    cluster = Cluster(0)
    node = cluster.brokers[0].session.get(ControllerEpochZNode.path)
    assert (node.data, node.stat.version) == (b"1", 1)


def test_who_asked_is_answered_when_the_handling_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """A defect of ours, or a store that fails where nobody expects it: nobody waits for ever."""
    cluster = Cluster(0)
    cluster.create_topic("orders", {0: [0]})
    controller = cluster.active.controller
    partition = TopicPartition("orders", 0)
    answers: list[Any] = []

    def fail(*_: Any) -> None:
        raise RuntimeError

    for name in ("assignment", "replicas", "is_topic_queued_for_deletion"):
        monkeypatch.setattr(controller.context, name, fail)
    monkeypatch.setattr(controller.context, "partitions_on_broker", fail)
    controller.elect_leaders([partition], ElectionType.PREFERRED, answers.append)
    controller.controlled_shutdown(0, -1, answers.append)
    controller.alter_partition_reassignments({partition: [0]}, answers.append)
    controller.list_partition_reassignments([partition], answers.append)
    cluster.settle()
    elected, *others = answers
    assert [answer.code for answer in (elected[partition], *others)] == [ErrorCode.UNKNOWN_SERVER_ERROR] * 4
