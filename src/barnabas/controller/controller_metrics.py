"""The controller's metrics by Kafka's names.

Registered by `broker` on the main thread, once. A gauge is computed on the thread that reads it, from copies of the
controller's context, so that the controller's thread does no work for it: copying a dict is one step, whatever thread
changes the dict. A broker that is not the controller shows zeros. Kafka counts while it handles events instead.
Kafka: KafkaController, ControllerStats, ControllerEventManager.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from barnabas.controller.controller import Controller
from barnabas.controller.controller_context import ControllerContext
from barnabas.controller.controller_state import RATE_AND_TIME_METRICS
from barnabas.controller.state_tables import PartitionState, ReplicaState
from barnabas.metrics.metrics_registry import MetricsRegistry

GROUP: Final = "kafka.controller"
ZOOKEEPER_MODE: Final = 4
"""The ZkMigrationState that says that no migration has begun."""


def register_controller_metrics(registry: MetricsRegistry, controller: Controller) -> None:
    """Register every metric of the controller, without those of its channels."""
    stats = controller.stats
    bean = (GROUP, "KafkaController")
    text = "1 where the controller is"
    registry.register(*bean, "ActiveControllerCount", text, lambda: int(controller.is_active))
    text = "What the controller is doing (Kafka's numbers)"
    registry.register(*bean, "ControllerState", text, lambda: int(stats.state))
    text = "Always that of a cluster that is not migrating"
    registry.register(*bean, "ZkMigrationState", text, lambda: ZOOKEEPER_MODE)
    registry.register(*bean, "FencedBrokerCount", "Brokers shut out; none in ZooKeeper mode", lambda: 0)
    for name, (text, count) in _COUNTS.items():
        registry.register(*bean, name, text, _while_active(controller, count))
    bean = (GROUP, "ControllerEventManager")
    text = "Events that wait for the controller"
    registry.register(*bean, "EventQueueSize", text, lambda: controller.event_queue_size)
    registry.register(*bean, "EventQueueTimeMs", "How long they waited", stats.event_queue_time_ms)
    bean = (GROUP, "ControllerStats")
    text = "Leaders elected out of sync: records were lost"
    registry.register(*bean, "UncleanLeaderElectionsPerSec", text, stats.unclean_elections)
    for state, name in RATE_AND_TIME_METRICS.items():
        text = "How often the controller handled this event, and how long that took"
        registry.register(*bean, name, f"{text}: {name.removesuffix('RateAndTimeMs')}", stats.timers[state])


def _while_active(controller: Controller, count: Callable[[ControllerContext], int]) -> Callable[[], int]:
    return lambda: count(controller.context) if controller.is_active else 0


def offline_partitions(context: ControllerContext) -> int:
    """Count the partitions without a live leader, without those of topics whose deletion has begun."""
    deleting = context.topics_with_deletion_started
    states = context.partition_states.copy()
    return sum(state is PartitionState.OFFLINE and tp.topic not in deleting for tp, state in states.items())


def preferred_replica_imbalance(context: ControllerContext) -> int:
    """Count the partitions whose leader is not the preferred one.

    A preferred replica that is being added is excused.
    """
    return sum(
        not _is_led_as_preferred(context, tp.topic, tp.partition, state.leader_and_isr.leader)
        for tp, state in context.leadership.copy().items()
        if not context.is_topic_queued_for_deletion(tp.topic)
    )


def _is_led_as_preferred(context: ControllerContext, topic: str, partition: int, leader: int) -> bool:
    assignment = context.assignments.get(topic, {}).get(partition)
    if assignment is None or not assignment.replicas:
        return True
    preferred = assignment.replicas[0]
    return leader == preferred or (assignment.is_being_reassigned and preferred in assignment.adding_replicas)


def _replicas_to_delete(context: ControllerContext, *, only_ineligible: bool) -> int:
    waiting = context.topics_to_be_deleted.copy()
    return sum(
        (state is ReplicaState.DELETION_INELIGIBLE)
        if only_ineligible
        else state is not ReplicaState.DELETION_SUCCESSFUL
        for replica, state in context.replica_states.copy().items()
        if replica.partition.topic in waiting
    )


_COUNTS: Final[dict[str, tuple[str, Callable[[ControllerContext], int]]]] = {
    "OfflinePartitionsCount": ("Partitions without a leader", offline_partitions),
    "PreferredReplicaImbalanceCount": ("Partitions not led by their preferred replica", preferred_replica_imbalance),
    "GlobalTopicCount": ("Topics of the cluster", lambda context: len(context.all_topics)),
    "GlobalPartitionCount": ("Partitions of the cluster", lambda context: len(context.leadership)),
    "TopicsToDeleteCount": ("Topics being deleted", lambda context: len(context.topics_to_be_deleted)),
    "ReplicasToDeleteCount": ("Replicas being deleted", partial(_replicas_to_delete, only_ineligible=False)),
    "TopicsIneligibleToDeleteCount": (
        "Topics whose deletion waits",
        lambda context: len(context.topics_ineligible_for_deletion),
    ),
    "ReplicasIneligibleToDeleteCount": (
        "Replicas whose deletion waits",
        partial(_replicas_to_delete, only_ineligible=True),
    ),
    "ActiveBrokerCount": ("Live brokers", lambda context: len(context.live_brokers)),
}
"""Name of a gauge -> its description, and the number that it counts."""
