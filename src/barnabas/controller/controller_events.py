"""What happens to the controller: each event is handled alone, in the order of arrival.

Made on any thread (watches, channels, request handlers), handled on `controller-event`; immutable, so no lock.
Kafka: the sealed trait ControllerEvent in kafka.controller.KafkaController.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from barnabas.protocol.errors import ApiError
from barnabas.protocol.messages.inter_broker import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    LeaderAndIsrResponse,
    StopReplicaResponse,
    UpdateMetadataResponse,
)
from barnabas.protocol.topic_partition import TopicPartition


class ElectionType(enum.IntEnum):
    """What an ElectLeaders request asks for. Kafka: org.apache.kafka.common.ElectionType."""

    PREFERRED = 0
    UNCLEAN = 1


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


@dataclass(frozen=True, slots=True)
class Startup:
    """The broker is ready to stand for election."""


@dataclass(frozen=True, slots=True)
class ControllerChange:
    """/controller was created or changed: we may have lost it."""


@dataclass(frozen=True, slots=True)
class Reelect:
    """/controller is gone: stand for election."""


@dataclass(frozen=True, slots=True)
class Expire:
    """The session is over: whatever we were, we aren't it any more."""


@dataclass(frozen=True, slots=True)
class RegisterBrokerAndReelect:
    """A new session is ready."""


@dataclass(frozen=True, slots=True)
class BrokerChange:
    """A broker came or went."""


@dataclass(frozen=True, slots=True)
class BrokerModifications:
    """A broker's registration changed."""

    broker_id: int


@dataclass(frozen=True, slots=True)
class TopicChange:
    """A topic came or went."""


@dataclass(frozen=True, slots=True)
class PartitionModifications:
    """A topic's assignment changed: partitions were added."""

    topic: str


@dataclass(frozen=True, slots=True)
class TopicDeletion:
    """Somebody wants topics deleted."""


@dataclass(frozen=True, slots=True)
class LogDirEventNotification:
    """A broker lost a log directory."""


@dataclass(frozen=True, slots=True)
class ReplicaLeaderElection:
    """Elect leaders; of the partitions named in the store when `partitions` is None."""

    partitions: frozenset[TopicPartition] | None
    election_type: ElectionType
    trigger: ElectionTrigger
    callback: ElectLeadersCallback | None = None


@dataclass(frozen=True, slots=True)
class AutoPreferredReplicaLeaderElection:
    """Time to see whether leadership is out of balance."""


@dataclass(frozen=True, slots=True)
class UncleanLeaderElectionEnable:
    """Unclean elections are allowed now: for a topic, or by default."""

    topic: str | None


@dataclass(frozen=True, slots=True)
class ControlledShutdown:
    """A broker wants to stop: lead its partitions elsewhere."""

    broker_id: int
    broker_epoch: int
    callback: ControlledShutdownCallback


@dataclass(frozen=True, slots=True)
class AlterPartitionReceived:
    """A leader wants to change in-sync replicas."""

    request: AlterPartitionRequest
    version: int
    callback: AlterPartitionCallback


@dataclass(frozen=True, slots=True)
class LeaderAndIsrResponseReceived:
    """A broker answered."""

    broker_id: int
    response: LeaderAndIsrResponse


@dataclass(frozen=True, slots=True)
class UpdateMetadataResponseReceived:
    """A broker answered."""

    broker_id: int
    response: UpdateMetadataResponse


@dataclass(frozen=True, slots=True)
class StopReplicaResponseReceived:
    """A broker answered a StopReplica that deletes `deleting`."""

    broker_id: int
    response: StopReplicaResponse
    deleting: frozenset[TopicPartition]


ControllerEvent: TypeAlias = (
    Startup
    | ControllerChange
    | Reelect
    | Expire
    | RegisterBrokerAndReelect
    | BrokerChange
    | BrokerModifications
    | TopicChange
    | PartitionModifications
    | TopicDeletion
    | LogDirEventNotification
    | ReplicaLeaderElection
    | AutoPreferredReplicaLeaderElection
    | UncleanLeaderElectionEnable
    | ControlledShutdown
    | AlterPartitionReceived
    | LeaderAndIsrResponseReceived
    | UpdateMetadataResponseReceived
    | StopReplicaResponseReceived
)
