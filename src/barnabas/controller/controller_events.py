"""What happens to the controller: each event is handled alone, in the order of arrival.

Made on any thread (watches, channels, request handlers), handled on `controller-event`; immutable, so no lock.
Kafka: the sealed trait ControllerEvent in kafka.controller.KafkaController.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from barnabas.protocol.election_type import ElectionType
from barnabas.protocol.errors import ApiError
from barnabas.protocol.messages.inter_broker import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    LeaderAndIsrResponse,
    StopReplicaResponse,
    UpdateMetadataResponse,
)
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.zk.broker_zk_data import ProducerIdsBlock
from barnabas.zk.replica_assignment import ReplicaAssignment


class ElectionTrigger(enum.Enum):
    """Who asks for an election."""

    AUTO = "AutoTriggered"
    STORE = "ZkTriggered"
    ADMIN_CLIENT = "AdminClientTriggered"


# the leader elected, or why none was; by partition
ElectLeadersCallback: TypeAlias = Callable[[Mapping[TopicPartition, "int | ApiError"]], None]
# the partitions the broker still leads, or why it can't be told
ControlledShutdownCallback: TypeAlias = Callable[["set[TopicPartition] | ApiError"], None]
AlterPartitionCallback: TypeAlias = Callable[[AlterPartitionResponse], None]
# by partition why it is not being moved, None if it is; or why none can be
AlterReassignmentsCallback: TypeAlias = Callable[["Mapping[TopicPartition, ApiError | None] | ApiError"], None]
AllocateProducerIdsCallback: TypeAlias = Callable[["ProducerIdsBlock | ApiError"], None]
ListReassignmentsCallback: TypeAlias = Callable[["Mapping[TopicPartition, ReplicaAssignment] | ApiError"], None]


class Signal(enum.Enum):
    """Events that carry nothing but their name."""

    STARTUP = "Startup"
    """The broker is ready to stand for election."""
    CONTROLLER_CHANGE = "ControllerChange"
    """/controller was created or changed: we may have lost it."""
    REELECT = "Reelect"
    """/controller is gone: stand for election."""
    EXPIRE = "Expire"
    """The session is over: whatever we were, we aren't it any more."""
    REGISTER_BROKER_AND_REELECT = "RegisterBrokerAndReelect"
    """A new session is ready."""
    BROKER_CHANGE = "BrokerChange"
    """A broker came or went."""
    TOPIC_CHANGE = "TopicChange"
    """A topic came or went."""
    TOPIC_DELETION = "TopicDeletion"
    """Somebody wants topics deleted."""
    LOG_DIR_EVENT_NOTIFICATION = "LogDirEventNotification"
    """A broker lost a log directory."""
    ISR_CHANGE_NOTIFICATION = "IsrChangeNotification"
    """Leaders changed in-sync replicas by themselves."""
    AUTO_PREFERRED_REPLICA_LEADER_ELECTION = "AutoPreferredReplicaLeaderElection"
    """Time to see whether leadership is out of balance."""


class BrokerModifications(NamedTuple):
    """A broker's registration changed."""

    broker_id: int


class PartitionModifications(NamedTuple):
    """A topic's assignment changed: partitions were added."""

    topic: str


class ReplicaLeaderElection(NamedTuple):
    """Elect leaders; of the partitions named in the store when `partitions` is None."""

    partitions: frozenset[TopicPartition] | None
    election_type: ElectionType
    trigger: ElectionTrigger
    callback: ElectLeadersCallback | None = None


class UncleanLeaderElectionEnable(NamedTuple):
    """Unclean elections are allowed now: for a topic, or by default."""

    topic: str | None


class ControlledShutdown(NamedTuple):
    """A broker wants to stop: lead its partitions elsewhere."""

    broker_id: int
    broker_epoch: int
    callback: ControlledShutdownCallback


class AlterPartitionReceived(NamedTuple):
    """A leader wants to change in-sync replicas."""

    request: AlterPartitionRequest
    version: int
    callback: AlterPartitionCallback


class AllocateProducerIds(NamedTuple):
    """A broker wants a block of producer ids."""

    broker_id: int
    broker_epoch: int
    callback: AllocateProducerIdsCallback


class ApiPartitionReassignment(NamedTuple):
    """Move partitions to other replicas; None as replicas: stop moving them."""

    reassignments: Mapping[TopicPartition, Sequence[int] | None]
    allow_replication_factor_change: bool
    callback: AlterReassignmentsCallback


class ListPartitionReassignments(NamedTuple):
    """Which of these partitions are being moved (None: of all)?"""

    partitions: frozenset[TopicPartition] | None
    callback: ListReassignmentsCallback


class PartitionReassignmentIsrChange(NamedTuple):
    """The in-sync replicas of a partition that is being moved changed."""

    partition: TopicPartition


class LeaderAndIsrResponseReceived(NamedTuple):
    """A broker answered."""

    broker_id: int
    response: LeaderAndIsrResponse


class UpdateMetadataResponseReceived(NamedTuple):
    """A broker answered."""

    broker_id: int
    response: UpdateMetadataResponse


class StopReplicaResponseReceived(NamedTuple):
    """A broker answered a StopReplica that deletes `deleting`."""

    broker_id: int
    response: StopReplicaResponse
    deleting: frozenset[TopicPartition]


ControllerEvent: TypeAlias = (
    Signal
    | BrokerModifications
    | PartitionModifications
    | ReplicaLeaderElection
    | UncleanLeaderElectionEnable
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
