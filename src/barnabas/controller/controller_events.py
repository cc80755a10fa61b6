"""The events of the controller. Each is handled alone, in the order of arrival.

Made on any thread (watches, channels, request handlers), handled on `controller-event`; immutable, so no lock.
Kafka: kafka.controller.ControllerEvent.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from barnabas.protocol.codes import ElectionType
from barnabas.protocol.errors import ApiError
from barnabas.protocol.messages.inter_broker import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    LeaderAndIsrResponse,
    StopReplicaResponse,
    UpdateMetadataResponse,
)
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.zk.znodes.broker_zk_data import ProducerIdsBlock
from barnabas.zk.znodes.topic_zk_data import ReplicaAssignment


class ElectionTrigger(enum.Enum):
    """The reason for an election."""

    AUTO = "AutoTriggered"
    STORE = "ZkTriggered"
    ADMIN_CLIENT = "AdminClientTriggered"


# By partition: the elected leader, or the error why there is none.
ElectLeadersCallback: TypeAlias = Callable[[Mapping[TopicPartition, "int | ApiError"]], None]
# The partitions that the broker still leads, or an error.
ControlledShutdownCallback: TypeAlias = Callable[["set[TopicPartition] | ApiError"], None]
AlterPartitionCallback: TypeAlias = Callable[[AlterPartitionResponse], None]
# By partition: the error, or None for a reassignment that has begun. Or one error for all.
AlterReassignmentsCallback: TypeAlias = Callable[["Mapping[TopicPartition, ApiError | None] | ApiError"], None]
AllocateProducerIdsCallback: TypeAlias = Callable[["ProducerIdsBlock | ApiError"], None]
ListReassignmentsCallback: TypeAlias = Callable[["Mapping[TopicPartition, ReplicaAssignment] | ApiError"], None]


class Signal(enum.Enum):
    """The events without data."""

    STARTUP = "Startup"
    """The broker is ready to stand for election."""
    CONTROLLER_CHANGE = "ControllerChange"
    """/controller was created or changed: another broker may be the controller now."""
    REELECT = "Reelect"
    """/controller is gone: stand for election."""
    EXPIRE = "Expire"
    """The session is over: this broker is no longer the controller."""
    REGISTER_BROKER_AND_REELECT = "RegisterBrokerAndReelect"
    """A new session is ready."""
    BROKER_CHANGE = "BrokerChange"
    """A broker appeared or disappeared."""
    TOPIC_CHANGE = "TopicChange"
    """A topic appeared or disappeared."""
    TOPIC_DELETION = "TopicDeletion"
    """Topics to be deleted were named in the store."""
    LOG_DIR_EVENT_NOTIFICATION = "LogDirEventNotification"
    """A broker lost a log directory."""
    ISR_CHANGE_NOTIFICATION = "IsrChangeNotification"
    """Leaders wrote in-sync replicas to the store."""
    AUTO_PREFERRED_REPLICA_LEADER_ELECTION = "AutoPreferredReplicaLeaderElection"
    """The leaders of the brokers are to be checked for imbalance."""
    STORE_REASSIGNMENT = "ZkPartitionReassignment"
    """Partitions to be moved were named in the store."""


class BrokerModifications(NamedTuple):
    """A broker's registration changed."""

    broker_id: int


class PartitionModifications(NamedTuple):
    """A topic's assignment changed: partitions were added."""

    topic: str


class ReplicaLeaderElection(NamedTuple):
    """An election for partitions, or for those named in the store (None)."""

    partitions: frozenset[TopicPartition] | None
    election_type: ElectionType
    trigger: ElectionTrigger
    callback: ElectLeadersCallback | None = None


class UncleanLeaderElectionEnable(NamedTuple):
    """Unclean elections are allowed now, for a topic or by default (None)."""

    topic: str | None


class BrokerReachabilityChange(NamedTuple):
    """The address of a registered broker refuses connections, or accepts them again. Not in Kafka."""

    broker_id: int
    broker_epoch: int
    is_reachable: bool


class ControlledShutdown(NamedTuple):
    """A broker is about to stop: other brokers are to lead its partitions."""

    broker_id: int
    broker_epoch: int
    callback: ControlledShutdownCallback


class AlterPartitionReceived(NamedTuple):
    """A leader asks for a change of in-sync replicas."""

    request: AlterPartitionRequest
    version: int
    callback: AlterPartitionCallback


class AllocateProducerIds(NamedTuple):
    """A broker asks for a block of producer ids."""

    broker_id: int
    broker_epoch: int
    callback: AllocateProducerIdsCallback


class ApiPartitionReassignment(NamedTuple):
    """Partitions are to be moved to other replicas; None as replicas cancels."""

    reassignments: Mapping[TopicPartition, Sequence[int] | None]
    allow_replication_factor_change: bool
    callback: AlterReassignmentsCallback


class ListPartitionReassignments(NamedTuple):
    """A request for the reassignments of these partitions, or of all (None)."""

    partitions: frozenset[TopicPartition] | None
    callback: ListReassignmentsCallback


class PartitionReassignmentIsrChange(NamedTuple):
    """The in-sync replicas changed of a partition that is being reassigned."""

    partition: TopicPartition


class LeaderAndIsrResponseReceived(NamedTuple):
    """A broker answered LeaderAndIsr."""

    broker_id: int
    response: LeaderAndIsrResponse


class UpdateMetadataResponseReceived(NamedTuple):
    """A broker answered UpdateMetadata."""

    broker_id: int
    response: UpdateMetadataResponse


class StopReplicaResponseReceived(NamedTuple):
    """A broker answered a StopReplica that deletes the replicas `deleting`."""

    broker_id: int
    response: StopReplicaResponse
    deleting: frozenset[TopicPartition]


ControllerEvent: TypeAlias = (
    Signal
    | BrokerModifications
    | PartitionModifications
    | ReplicaLeaderElection
    | UncleanLeaderElectionEnable
    | BrokerReachabilityChange
    | ControlledShutdown
    | AlterPartitionReceived
    | AllocateProducerIds
    | ApiPartitionReassignment
    | ListPartitionReassignments
    | PartitionReassignmentIsrChange
    | LeaderAndIsrResponseReceived
    | UpdateMetadataResponseReceived
    | StopReplicaResponseReceived
)
