"""The state of the controller by the event that it handles, and its counts: times by state, unclean elections.

`controller` makes the counts; the controller's thread alone updates them, and any thread reads them. The tables are
pure. Kafka: kafka.controller.ControllerState, ControllerStats, ControllerEventManager.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

from barnabas.controller import controller_events as events
from barnabas.metrics.histogram import DurationTimer, Histogram
from barnabas.metrics.meter import Meter


class ControllerState(enum.IntEnum):
    """The states, with Kafka's numbers, which the metric ControllerState shows."""

    IDLE = 0
    CONTROLLER_CHANGE = 1
    BROKER_CHANGE = 2
    TOPIC_CHANGE = 3
    TOPIC_DELETION = 4
    ALTER_PARTITION_REASSIGNMENT = 5
    AUTO_LEADER_BALANCE = 6
    MANUAL_LEADER_BALANCE = 7
    CONTROLLED_SHUTDOWN = 8
    ISR_CHANGE = 9
    LEADER_AND_ISR_RESPONSE_RECEIVED = 10
    LOG_DIR_CHANGE = 11
    CONTROLLER_SHUTDOWN = 12
    UNCLEAN_LEADER_ELECTION_ENABLE = 13
    TOPIC_UNCLEAN_LEADER_ELECTION_ENABLE = 14
    LIST_PARTITION_REASSIGNMENT = 15
    UPDATE_METADATA_RESPONSE_RECEIVED = 16
    UPDATE_FEATURES = 17


RATE_AND_TIME_METRICS: Final[Mapping[ControllerState, str]] = {
    ControllerState.CONTROLLER_CHANGE: "ControllerChangeRateAndTimeMs",
    # Kafka's metric is older than the states, and has kept its name.
    ControllerState.BROKER_CHANGE: "LeaderElectionRateAndTimeMs",
    ControllerState.TOPIC_CHANGE: "TopicChangeRateAndTimeMs",
    ControllerState.TOPIC_DELETION: "TopicDeletionRateAndTimeMs",
    ControllerState.ALTER_PARTITION_REASSIGNMENT: "PartitionReassignmentRateAndTimeMs",
    ControllerState.AUTO_LEADER_BALANCE: "AutoLeaderBalanceRateAndTimeMs",
    ControllerState.MANUAL_LEADER_BALANCE: "ManualLeaderBalanceRateAndTimeMs",
    ControllerState.CONTROLLED_SHUTDOWN: "ControlledShutdownRateAndTimeMs",
    ControllerState.ISR_CHANGE: "IsrChangeRateAndTimeMs",
    ControllerState.LEADER_AND_ISR_RESPONSE_RECEIVED: "LeaderAndIsrResponseReceivedRateAndTimeMs",
    ControllerState.LOG_DIR_CHANGE: "LogDirChangeRateAndTimeMs",
    ControllerState.CONTROLLER_SHUTDOWN: "ControllerShutdownRateAndTimeMs",
    ControllerState.UNCLEAN_LEADER_ELECTION_ENABLE: "UncleanLeaderElectionEnableRateAndTimeMs",
    ControllerState.TOPIC_UNCLEAN_LEADER_ELECTION_ENABLE: "TopicUncleanLeaderElectionEnableRateAndTimeMs",
    ControllerState.LIST_PARTITION_REASSIGNMENT: "ListPartitionReassignmentRateAndTimeMs",
    ControllerState.UPDATE_FEATURES: "UpdateFeaturesRateAndTimeMs",
}
"""The timer of each state that has one, in kafka.controller:type=ControllerStats."""

_STATES: Final[Mapping[object, ControllerState]] = {
    events.Signal.STARTUP: ControllerState.CONTROLLER_CHANGE,
    events.Signal.CONTROLLER_CHANGE: ControllerState.CONTROLLER_CHANGE,
    events.Signal.REELECT: ControllerState.CONTROLLER_CHANGE,
    events.Signal.EXPIRE: ControllerState.CONTROLLER_CHANGE,
    events.Signal.REGISTER_BROKER_AND_REELECT: ControllerState.CONTROLLER_CHANGE,
    events.Signal.BROKER_CHANGE: ControllerState.BROKER_CHANGE,
    events.Signal.TOPIC_CHANGE: ControllerState.TOPIC_CHANGE,
    events.Signal.TOPIC_DELETION: ControllerState.TOPIC_DELETION,
    events.Signal.LOG_DIR_EVENT_NOTIFICATION: ControllerState.LOG_DIR_CHANGE,
    events.Signal.ISR_CHANGE_NOTIFICATION: ControllerState.ISR_CHANGE,
    events.Signal.AUTO_PREFERRED_REPLICA_LEADER_ELECTION: ControllerState.AUTO_LEADER_BALANCE,
    events.Signal.STORE_REASSIGNMENT: ControllerState.ALTER_PARTITION_REASSIGNMENT,
    events.BrokerModifications: ControllerState.BROKER_CHANGE,
    events.BrokerReachabilityChange: ControllerState.BROKER_CHANGE,
    events.PartitionModifications: ControllerState.TOPIC_CHANGE,
    events.ReplicaLeaderElection: ControllerState.MANUAL_LEADER_BALANCE,
    events.ControlledShutdown: ControllerState.CONTROLLED_SHUTDOWN,
    events.AlterPartitionReceived: ControllerState.ISR_CHANGE,
    events.AllocateProducerIds: ControllerState.IDLE,
    events.ApiPartitionReassignment: ControllerState.ALTER_PARTITION_REASSIGNMENT,
    events.ListPartitionReassignments: ControllerState.LIST_PARTITION_REASSIGNMENT,
    events.PartitionReassignmentIsrChange: ControllerState.ALTER_PARTITION_REASSIGNMENT,
    events.LeaderAndIsrResponseReceived: ControllerState.LEADER_AND_ISR_RESPONSE_RECEIVED,
    events.UpdateMetadataResponseReceived: ControllerState.UPDATE_METADATA_RESPONSE_RECEIVED,
    events.StopReplicaResponseReceived: ControllerState.TOPIC_DELETION,
}


def state_while_handling(event: events.ControllerEvent) -> ControllerState:
    """Return the state of the controller while it handles an event."""
    if isinstance(event, events.UncleanLeaderElectionEnable):
        is_of_all = event.topic is None
        return (
            ControllerState.UNCLEAN_LEADER_ELECTION_ENABLE
            if is_of_all
            else ControllerState.TOPIC_UNCLEAN_LEADER_ELECTION_ENABLE
        )
    return _STATES[event if isinstance(event, events.Signal) else type(event)]


class ControllerStats:
    """The counts. `state`: the state of the controller now. `event_queue_time_ms`: Kafka's EventQueueTimeMs."""

    def __init__(self) -> None:
        self.state = ControllerState.IDLE
        self.event_queue_time_ms = Histogram()
        self.timers: Final[Mapping[ControllerState, DurationTimer]] = {
            state: DurationTimer() for state in RATE_AND_TIME_METRICS
        }
        self.unclean_elections = Meter()
