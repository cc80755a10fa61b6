"""The settings of a consumer's membership in its group. Immutable.

Read by the modules beside it, on both of the consumer's threads. Kafka: GroupRebalanceConfig.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from barnabas.clients.settings.client_config import ClientConfig
from barnabas.clients.settings.notation import setting


class GroupProtocol(StrEnum):
    """The protocols of groups, by the values of `group_protocol`."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


@dataclass(frozen=True, kw_only=True)
class GroupSettings(ClientConfig):
    """The settings that a ConsumerConfig and a GroupRebalanceConfig have in common."""

    group_protocol: str = setting(
        "classic",
        "How the group divides its partitions: `classic`, by the assignor of a member, or `consumer`, by its"
        " coordinator (KIP-848), which needs brokers that have this protocol.",
        choices=GroupProtocol,
        importance="high",
    )
    group_remote_assignor: str | None = setting(
        None,
        "The coordinator's assignor, with the consumer protocol: uniform or range. None: the coordinator chooses.",
    )
    client_rack: str = setting(
        "", "Where the consumer runs: it reads from the replica in this rack, and assignors see it.", importance="low"
    )
    group_instance_id: str | None = setting(None, "The id of a static member, which keeps its place when restarted.")
    session_timeout_ms: int = setting(
        45_000, "How long the coordinator waits for a member's heartbeat.", minimum=1, importance="high"
    )
    heartbeat_interval_ms: int = setting(3_000, "How often a member sends heartbeats.", minimum=1, importance="high")
    max_poll_interval_ms: int = setting(
        300_000, "How long a member may go without `poll`, and a rebalance may take.", minimum=1
    )
    auto_commit_interval_ms: int = setting(
        5_000, "How often positions are committed automatically.", minimum=1, importance="low"
    )

    def __post_init__(self) -> None:
        """Check the values, alone and together. Raises ValueError."""
        super().__post_init__()
        # The coordinator would evict a member between two of its heartbeats.
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ValueError("heartbeat_interval_ms must be set lower than the session timeout")
        if self.group_instance_id == "":
            raise ValueError("group_instance_id must not be empty")


@dataclass(frozen=True, kw_only=True)
class GroupRebalanceConfig(GroupSettings):
    """The settings of a consumer that has a group."""

    group_id: str = setting("", "The group's name.", importance="high")
    enable_auto_commit: bool = setting(True, "Whether positions are committed automatically.")
