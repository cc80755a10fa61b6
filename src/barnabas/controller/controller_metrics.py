"""The controller's metrics by Kafka's names.

Registered by `broker` on the main thread, once. A gauge is computed on the thread that reads it, from copies of the
controller's context, so that the controller's thread does no work for it: copying a dict is one step, whatever thread
changes the dict. A broker that is not the controller shows zeros. Kafka counts while it handles events instead.

Kafka: KafkaController, ControllerStats, ControllerEventManager.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from barnabas.controller.controller import Controller
from barnabas.controller.controller_context import ControllerContext
from barnabas.controller.controller_state import RATE_AND_TIME_METRICS
from barnabas.controller.partition_states import PartitionState
from barnabas.controller.replica_states import ReplicaState
from barnabas.metrics.metrics_registry import MetricsRegistry

GROUP: Final = "kafka.controller"
ZOOKEEPER_MODE: Final = 4
"""The ZkMigrationState that says that no migration has begun."""


def register_controller_metrics(registry: MetricsRegistry, controller: Controller) -> None:
    """Register every metric of the controller, without those of its channels."""
    stats = controller.stats
    registry.gauge(GROUP, "KafkaController", "ActiveControllerCount", lambda: int(controller.is_active))
    registry.gauge(GROUP, "KafkaController", "ControllerState", lambda: int(stats.state))
    registry.gauge(GROUP, "KafkaController", "ZkMigrationState", lambda: ZOOKEEPER_MODE)
    registry.gauge(GROUP, "KafkaController", "FencedBrokerCount", lambda: 0)
    for name, count in _COUNTS.items():
        registry.gauge(GROUP, "KafkaController", name, _while_active(controller, count))
    registry.gauge(GROUP, "ControllerEventManager", "EventQueueSize", lambda: controller.event_queue_size)
    registry.histogram(GROUP, "ControllerEventManager", "EventQueueTimeMs", stats.event_queue_time_ms)
    registry.meter(GROUP, "ControllerStats", "UncleanLeaderElectionsPerSec", stats.unclean_elections)
    for state, name in RATE_AND_TIME_METRICS.items():
        registry.timer(GROUP, "ControllerStats", name, stats.timers[state])


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


_COUNTS: Final[dict[str, Callable[[ControllerContext], int]]] = {
    "OfflinePartitionsCount": offline_partitions,
    "PreferredReplicaImbalanceCount": preferred_replica_imbalance,
    "GlobalTopicCount": lambda context: len(context.all_topics),
    "GlobalPartitionCount": lambda context: len(context.leadership),
    "TopicsToDeleteCount": lambda context: len(context.topics_to_be_deleted),
    "ReplicasToDeleteCount": lambda context: _replicas_to_delete(context, only_ineligible=False),
    "TopicsIneligibleToDeleteCount": lambda context: len(context.topics_ineligible_for_deletion),
    "ReplicasIneligibleToDeleteCount": lambda context: _replicas_to_delete(context, only_ineligible=True),
    "ActiveBrokerCount": lambda context: len(context.live_brokers),
}
