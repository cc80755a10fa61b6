"""The controller's metrics: what each counts, by Kafka's names, and zeros on brokers that are not the controller."""

from __future__ import annotations

from barnabas.controller import controller_events as events
from barnabas.controller.controller_metrics import register_controller_metrics
from barnabas.controller.controller_state import ControllerState, state_while_handling
from barnabas.metrics.metrics_registry import MetricsRegistry
from barnabas.protocol.codes import ElectionType
from barnabas.protocol.topic_partition import TopicPartition
from tests.support.controller_cluster import Cluster, RecordingBroker


def shown(broker: RecordingBroker) -> dict[str, float]:
    """Every metric of a broker's controller by its name."""
    registry = MetricsRegistry()
    register_controller_metrics(registry, broker.controller)
    samples = registry.collect()
    assert {sample.name.group for sample in samples} == {"kafka.controller"}
    return {f"{sample.name.type}.{sample.name.name}": sample.value for sample in samples}


def test_counts_of_a_cluster_that_loses_a_broker() -> None:
    cluster = Cluster(0, 1)
    cluster.create_topic("orders", {0: [0, 1], 1: [1, 0], 2: [1]})
    before = shown(cluster.brokers[0])
    assert before["KafkaController.ActiveControllerCount"] == 1
    assert before["KafkaController.GlobalTopicCount"] == 1
    assert before["KafkaController.GlobalPartitionCount"] == 3
    assert before["KafkaController.ActiveBrokerCount"] == 2
    assert before["KafkaController.OfflinePartitionsCount"] == 0
    assert before["KafkaController.PreferredReplicaImbalanceCount"] == 0
    assert before["KafkaController.ControllerState"] == ControllerState.IDLE
    assert before["ControllerEventManager.EventQueueSize"] == 0
    assert before["ControllerStats.TopicChangeRateAndTimeMs"] > 0

    cluster.brokers[1].stop()
    cluster.settle()
    after = shown(cluster.brokers[0])
    assert after["KafkaController.OfflinePartitionsCount"] == 1
    assert (
        after["KafkaController.PreferredReplicaImbalanceCount"] == 2
    )  # the offline one, too, has another leader: none
    assert after["KafkaController.ActiveBrokerCount"] == 1
    assert after["ControllerEventManager.EventQueueTimeMs"] > before["ControllerEventManager.EventQueueTimeMs"]


def test_deletions_that_wait() -> None:
    cluster = Cluster(0, 1)
    cluster.create_topic("orders", {0: [0, 1]})
    cluster.brokers[1].stop()
    cluster.settle()
    cluster.brokers[0].zk.topics.request_deletion("orders")
    cluster.settle()
    found = shown(cluster.brokers[0])
    assert found["KafkaController.TopicsToDeleteCount"] == 1
    assert found["KafkaController.TopicsIneligibleToDeleteCount"] == 1
    assert found["KafkaController.ReplicasToDeleteCount"] == 1
    assert found["ControllerStats.TopicDeletionRateAndTimeMs"] > 0


def test_an_unclean_election_is_counted() -> None:
    cluster = Cluster(0, 1)
    cluster.create_topic("orders", {0: [1, 0]})
    cluster.brokers[0].stop()
    cluster.settle()
    cluster.start(0)
    cluster.settle()
    cluster.brokers[1].stop()
    cluster.settle()
    active = cluster.active
    assert shown(active)["ControllerStats.UncleanLeaderElectionsPerSec"] == 0
    orders = [TopicPartition("orders", 0)]
    active.controller.elect_leaders(orders, ElectionType.UNCLEAN, lambda results: None)
    cluster.settle()
    assert cluster.leadership("orders")[0] == 0
    assert shown(active)["ControllerStats.UncleanLeaderElectionsPerSec"] == 1
    assert shown(active)["ControllerStats.ManualLeaderBalanceRateAndTimeMs"] >= 1


def test_who_is_not_the_controller_shows_zeros() -> None:
    cluster = Cluster(0, 1)
    cluster.create_topic("orders", {0: [0, 1]})
    found = shown(cluster.brokers[1])
    assert {name: value for name, value in found.items() if name.startswith("KafkaController.") and value} == {
        "KafkaController.ZkMigrationState": 4
    }


def test_every_event_has_a_state() -> None:
    for signal in events.Signal:
        assert isinstance(state_while_handling(signal), ControllerState)
    all_topics, one = events.UncleanLeaderElectionEnable(None), events.UncleanLeaderElectionEnable("orders")
    assert state_while_handling(all_topics) is ControllerState.UNCLEAN_LEADER_ELECTION_ENABLE
    assert state_while_handling(one) is ControllerState.TOPIC_UNCLEAN_LEADER_ELECTION_ENABLE
