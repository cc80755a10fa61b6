"""The controller of three brokers: elections, deletions, reassignments and stops, while brokers and controllers die.

Sessions are long, so that a frozen broker stays registered however slow the machine is; the session of a killed broker
ends with its connection. Leaders are moved by the tests alone (`auto.leader.rebalance.enable=false`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from barnabas.clients.admin import Admin, ConfigChange, ConfigOperation, ConfigResource, ElectionType, NewTopic
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.protocol.messages.produce import ProduceResponse
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.testing import Cluster, cluster
from barnabas.zk.store.errors import NoNodeError
from barnabas.zk.store.store import Store
from tests.support.cluster_state import partition_state
from tests.support.numbered_records import eventually, producing, values_of
from tests.support.raw_client import RawClient, make_batch
from tests.support.waiting import is_gone

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def three() -> Iterator[Cluster]:
    """Three brokers, all of which run again after each test."""
    with cluster(
        3,
        auto_create_topics_enable=False,
        auto_leader_rebalance_enable=False,
        # A broker that stops just when the controller is replaced finds the next one.
        controlled_shutdown_max_retries=30,
        zookeeper_session_timeout_ms=300_000,
    ) as running:
        yield running


def admin_of(three: Cluster, *brokers: int) -> Admin:
    """An admin client that begins with these brokers, or with all."""
    addresses = [three.brokers[broker].bootstrap_servers for broker in brokers]
    return Admin(addresses or three.bootstrap_servers)


def create(three: Cluster, topic: str, *replicas: int, **configs: str) -> None:
    """Create a topic of one partition with these replicas, and wait until all of them have it."""
    settings = {name.replace("_", "."): value for name, value in configs.items()}
    with admin_of(three) as admin:
        admin.create_topics([NewTopic(topic, configs=settings, assignments={0: replicas})])
    for replica in replicas:
        eventually(Path(three.brokers[replica].data_dir, f"{topic}-0").is_dir)


def leader_of(store: Store, topic: str) -> int:
    leader: int = partition_state(store, topic)["leader"]
    return leader


def is_led_by(store: Store, topic: str, leader: int) -> bool:
    return leader_of(store, topic) == leader


def has_isr(store: Store, topic: str, *isr: int) -> bool:
    return sorted(partition_state(store, topic)["isr"]) == sorted(isr)


def is_known_everywhere(three: Cluster, topic: str, leader: int) -> bool:
    """Whether all running brokers tell clients of this leader; -1 for none."""
    for broker in three.brokers:
        if broker.is_running:
            with RawClient(broker) as client:
                if [each.leader_id for each in client.metadata(topic).partitions] != [leader]:
                    return False
    return True


def controller_of(three: Cluster, *, other_than: int = -1) -> int:
    """Wait for a controller, and return its id."""
    return int(eventually(lambda: str(found) if (found := three.controller_id) not in (None, other_than) else None))


def kill_controller(three: Cluster) -> int:
    """Kill the controller, wait for the next one, and return the id of the killed one."""
    dead = controller_of(three)
    three.kill(dead)
    controller_of(three, other_than=dead)
    return dead


def produce_error(three: Cluster, broker: int, topic: str) -> int:
    """Produce one record with acks=all through a broker, which waits a second for it, and return the error code."""
    with RawClient(three.brokers[broker]) as client:
        request = client.produce_request(topic, make_batch([b"value"]), 9, acks=-1)
        request.timeout_ms = 1_000
        (answered,) = client.call(request, 9, ProduceResponse).responses
        return answered.partition_responses[0].error_code


def accepts(three: Cluster, broker: int, topic: str) -> bool:
    return produce_error(three, broker, topic) == ErrorCode.NONE


# -- elections


def test_the_preferred_leader_leads_again_after_an_election(three: Cluster, store: Store) -> None:
    preferred = (controller_of(three) + 1) % 3
    others = [broker for broker in range(3) if broker != preferred]
    create(three, "preferred", preferred, *others)
    wanted = [TopicPartition("preferred", 0)]
    with producing(three.bootstrap_servers, "preferred") as acknowledged:
        three.kill(preferred)
        eventually(partial(is_led_by, store, "preferred", others[0]))
        with admin_of(three, *others) as admin:
            (error,) = admin.elect_leaders(ElectionType.PREFERRED, wanted).values()
            assert error is not None
            assert error.code is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
        three.restart(preferred)
        eventually(partial(has_isr, store, "preferred", 0, 1, 2))
        assert leader_of(store, "preferred") == others[0]
        with admin_of(three) as admin:
            eventually(partial(elect_preferred, admin, wanted))
        assert leader_of(store, "preferred") == preferred
        eventually(partial(is_known_everywhere, three, "preferred", preferred))
        eventually(partial(is_longer, acknowledged, len(acknowledged)))
    assert values_of(three.bootstrap_servers, "preferred", len(acknowledged)) == acknowledged


def elect_preferred(admin: Admin, wanted: list[TopicPartition]) -> bool:
    """Elect preferred leaders. Return False while the controller does not know yet that they are in sync."""
    return all(error is None for error in admin.elect_leaders(ElectionType.PREFERRED, wanted).values())


def test_a_leader_that_may_lack_records_is_elected_by_permission_only(three: Cluster, store: Store) -> None:
    controller = controller_of(three)
    last, behind = (controller + 1) % 3, (controller + 2) % 3
    topics = ["unclean-by-topic", "unclean-by-admin", "unclean-by-broker"]
    for topic in topics:
        create(three, topic, last, behind, min_insync_replicas="1")
    three.kill(behind)
    for topic in topics:
        eventually(partial(has_isr, store, topic, last))
        eventually(partial(is_known_everywhere, three, topic, last))
        eventually(partial(accepts, three, last, topic))
    three.kill(last)
    for topic in topics:
        eventually(partial(is_led_by, store, topic, -1))
    three.restart(behind)
    with admin_of(three, controller, behind) as admin:
        (error,) = admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition(topics[0], 0)]).values()
        assert error is not None
        assert error.code is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
        for topic in topics:
            assert partition_state(store, topic)["leader"] == -1
            assert partition_state(store, topic)["isr"] == [last]
        permit = ConfigChange("unclean.leader.election.enable", ConfigOperation.SET, "true")
        forbid = ConfigChange("unclean.leader.election.enable", ConfigOperation.DELETE)
        admin.incremental_alter_configs(ConfigResource.topic(topics[0]), [permit])
        eventually(partial(is_led_by, store, topics[0], behind))
        wanted = TopicPartition(topics[1], 0)
        assert admin.elect_leaders(ElectionType.UNCLEAN, [wanted]) == {wanted: None}
        assert is_led_by(store, topics[1], behind)
        assert is_led_by(store, topics[2], -1)
        admin.incremental_alter_configs(ConfigResource.all_brokers(), [permit])
        eventually(partial(is_led_by, store, topics[2], behind))
        admin.incremental_alter_configs(ConfigResource.all_brokers(), [forbid])
    three.restart(last)
    for topic in topics:
        # The former leader drops the record that its successor never had.
        eventually(partial(has_isr, store, topic, last, behind))
        with RawClient(three.brokers[behind]) as client:
            assert client.end_offset(topic) == 0


@pytest.mark.slow
def test_too_few_in_sync_replicas_refuse_records(three: Cluster, store: Store) -> None:
    controller = controller_of(three)
    others = [broker for broker in range(3) if broker != controller]
    create(three, "scarce", controller, *others)
    eventually(partial(accepts, three, controller, "scarce"))
    three.kill(others[0])
    eventually(partial(has_isr, store, "scarce", controller, others[1]))
    eventually(partial(accepts, three, controller, "scarce"))
    three.kill(others[1])
    eventually(partial(has_isr, store, "scarce", controller))
    eventually(lambda: produce_error(three, controller, "scarce") == ErrorCode.NOT_ENOUGH_REPLICAS)
    for broker in others:
        three.restart(broker)
    eventually(partial(has_isr, store, "scarce", 0, 1, 2))
    eventually(partial(accepts, three, controller, "scarce"))


# -- deletion


def test_a_deletion_waits_for_a_dead_broker_and_survives_the_controller(three: Cluster, store: Store) -> None:
    controller = controller_of(three)
    dead = (controller + 1) % 3
    create(three, "deleted", 0, 1, 2)
    three.kill(dead)
    living = [broker for broker in range(3) if broker != dead]
    with admin_of(three, *living) as admin:
        admin.delete_topics(["deleted"])
        with pytest.raises(ApiError, match="marked for deletion"):
            admin.create_topics([NewTopic("deleted", assignments={0: [controller]})])
    assert store.exists("/admin/delete_topics/deleted") is not None
    killed = kill_controller(three)
    assert store.exists("/admin/delete_topics/deleted") is not None
    three.restart(killed)
    three.restart(dead)
    eventually(lambda: store.exists("/admin/delete_topics/deleted") is None)
    assert store.exists("/brokers/topics/deleted") is None
    for broker in three.brokers:
        eventually(partial(is_gone, Path(broker.data_dir, "deleted-0")))
    create(three, "deleted", 0, 1, 2)
    eventually(partial(is_known_everywhere, three, "deleted", 0))
    eventually(partial(accepts, three, 0, "deleted"))


# -- the death of a controller in the middle of its work


def test_the_next_controller_finishes_a_reassignment(three: Cluster, store: Store) -> None:
    controller = controller_of(three)
    target, other = (controller + 1) % 3, (controller + 2) % 3
    create(three, "moving", other, controller, min_insync_replicas="1")
    moving = TopicPartition("moving", 0)
    living = ",".join(three.brokers[broker].bootstrap_servers for broker in (controller, other))
    with producing(living, "moving") as acknowledged:
        # Frozen, the target is registered, and cannot catch up before the controller dies.
        three.pause(target)
        with admin_of(three, controller) as admin:
            assert admin.alter_partition_reassignments({moving: [target, controller]}) == {moving: None}
            assert admin.list_partition_reassignments()[moving].adding == (target,)
        three.kill(controller)
        three.resume(target)
        controller_of(three, other_than=controller)
        three.restart(controller)
        with admin_of(three) as admin:
            eventually(lambda: admin.list_partition_reassignments() == {})
        # The former leader has no replica any more, and loses its files.
        assert json.loads(store.get("/brokers/topics/moving").data)["partitions"] == {"0": [target, controller]}
        assert leader_of(store, "moving") == target
        eventually(partial(has_isr, store, "moving", target, controller))
        eventually(partial(is_gone, Path(three.brokers[other].data_dir, "moving-0")))
        eventually(partial(is_longer, acknowledged, len(acknowledged)))
    assert values_of(three.bootstrap_servers, "moving", len(acknowledged)) == acknowledged


def test_the_store_moves_a_partition(three: Cluster, store: Store) -> None:
    create(three, "stored", 0, 1)
    wanted = {"version": 1, "partitions": [{"topic": "stored", "partition": 0, "replicas": [2, 1]}]}
    store.create("/admin/reassign_partitions", json.dumps(wanted).encode())
    eventually(lambda: store.exists("/admin/reassign_partitions") is None)
    assert json.loads(store.get("/brokers/topics/stored").data)["partitions"] == {"0": [2, 1]}
    eventually(partial(is_gone, Path(three.brokers[0].data_dir, "stored-0")))
    eventually(partial(is_known_everywhere, three, "stored", 2))


@pytest.mark.slow
def test_the_next_controller_runs_an_election_of_the_store(three: Cluster, store: Store) -> None:
    controller = controller_of(three)
    preferred, other = (controller + 1) % 3, (controller + 2) % 3
    create(three, "elected", preferred, other)
    three.terminate(preferred)
    eventually(partial(is_led_by, store, "elected", other))
    three.restart(preferred)
    eventually(partial(has_isr, store, "elected", preferred, other))
    assert leader_of(store, "elected") == other
    # Frozen, the controller cannot have run the election before it dies.
    three.pause(controller)
    wanted = {"version": 1, "partitions": [{"topic": "elected", "partition": 0}]}
    store.create("/admin/preferred_replica_election", json.dumps(wanted).encode())
    three.kill(controller)
    eventually(partial(is_led_by, store, "elected", preferred))
    eventually(lambda: store.exists("/admin/preferred_replica_election") is None)
    three.restart(controller)


def test_a_deposed_controller_changes_nothing(three: Cluster, store: Store) -> None:
    deposed = controller_of(three)
    epoch = int(store.get("/controller_epoch").data)
    others = [broker for broker in range(3) if broker != deposed]
    three.pause(deposed)
    # What the frozen controller is told first when it goes on: a new topic, which it would create once more.
    late = {"version": 3, "topic_id": "AAAAAAAAAAAAAAAAAAAAbg", "partitions": {"0": others}}
    late |= {"adding_replicas": {}, "removing_replicas": {}}
    store.create("/brokers/topics/late", json.dumps(late).encode())
    store.delete("/controller")
    assert controller_of(three, other_than=deposed) in others
    eventually(partial(exists, store, "/brokers/topics/late/partitions/0/state"))
    written = store.get("/brokers/topics/late/partitions/0/state")
    three.resume(deposed)
    # It answers for the new controller once it has read both changes.
    eventually(partial(is_known_everywhere, three, "late", others[0]))
    with RawClient(three.brokers[deposed]) as client:
        assert client.metadata("late").partitions[0].isr_nodes == others
    assert int(store.get("/controller_epoch").data) == epoch + 1
    assert three.controller_id in others
    assert store.get("/brokers/topics/late/partitions/0/state") == written
    assert json.loads(written.data)["controller_epoch"] == epoch + 1
    eventually(partial(accepts, three, others[0], "late"))


def exists(store: Store, path: str) -> bool:
    try:
        return store.exists(path) is not None
    except NoNodeError:
        return False


# -- controlled shutdown


@pytest.mark.slow
def test_a_rolling_restart_under_load_loses_nothing(three: Cluster, store: Store) -> None:
    create(three, "rolling", 0, 1, 2)
    with producing(three.bootstrap_servers, "rolling") as acknowledged:
        for stopped in range(3):
            eventually(partial(has_isr, store, "rolling", 0, 1, 2))
            eventually(partial(is_controller_known, three))
            assert three.terminate(stopped) == 0
            # The broker has given its leaderships away before it ended.
            assert leader_of(store, "rolling") != stopped
            eventually(partial(has_isr, store, "rolling", *({0, 1, 2} - {stopped})))
            eventually(partial(is_longer, acknowledged, len(acknowledged)))
            three.restart(stopped)
    assert values_of(three.bootstrap_servers, "rolling", len(acknowledged)) == acknowledged


def is_controller_known(three: Cluster) -> bool:
    """Whether all brokers tell clients of the controller that the store names."""
    request = MetadataRequest([])
    for broker in three.brokers:
        with RawClient(broker) as client:
            if client.call(request, 9, MetadataResponse).controller_id != three.controller_id:
                return False
    return True


def is_longer(values: list[bytes], length: int) -> bool:
    return len(values) > length
