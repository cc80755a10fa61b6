"""The consumer's settings, with Kafka's names and defaults, and the interceptors that one of them takes.

Settings are immutable, made by users and by `Consumer`, on any thread. Interceptors see the records that `poll` returns
and the offsets that are committed; they are called on the consumer's thread, inside its calls; no lock.
Kafka: ConsumerConfig, ConsumerInterceptor, ConsumerInterceptors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from barnabas.clients.consumer.assignors.partition_assignor import PartitionAssignor
from barnabas.clients.consumer.consumer_record import ConsumerRecord
from barnabas.clients.consumer.deserializers import Deserializer, Deserializers
from barnabas.clients.consumer.group.config import GroupProtocol, GroupRebalanceConfig, GroupSettings
from barnabas.clients.consumer.group.offset_commits import Offsets
from barnabas.clients.consumer.offset_reset import parse_offset_reset
from barnabas.clients.interceptors import Interceptors
from barnabas.clients.settings.notation import setting, settings_of
from barnabas.clients.values import ISOLATION_LEVELS


class ConsumerInterceptor:
    """The base of interceptors, which override the methods of interest."""

    def on_consume(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        """Return the records for the user: these, or others in their place."""
        return records

    def on_commit(self, offsets: Offsets) -> None:
        """Take note of offsets that the coordinator has stored."""

    def close(self) -> None:
        """Let go of what the interceptor holds, when the consumer closes."""


class ConsumerInterceptors(Interceptors[ConsumerInterceptor]):
    """The interceptors of one consumer, called in their order."""

    def __init__(self, interceptors: Sequence[ConsumerInterceptor]) -> None:
        """Keep the interceptors. Raises TypeError for an object that is not an interceptor."""
        super().__init__(interceptors, ("on_consume", "on_commit", "close"))

    def on_consume(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        """Return the records after all interceptors. One that raises, or returns no list, is passed over."""
        return self._pass_through("on_consume", records, list, "a list of records")

    def on_commit(self, offsets: Offsets) -> None:
        """Call all interceptors with offsets that were committed."""
        self._call_all("on_commit", offsets)


# With the consumer protocol, the coordinator assigns the partitions and sets the times.
_SETTINGS_OF_OTHER_PROTOCOL = {
    GroupProtocol.CLASSIC: ("group_remote_assignor",),
    GroupProtocol.CONSUMER: ("partition_assignment_strategy", "heartbeat_interval_ms", "session_timeout_ms"),
}


@dataclass(frozen=True, kw_only=True)
class ConsumerConfig(GroupSettings):
    """The settings of one consumer. Sizes are bytes, times milliseconds.

    Raises ValueError for a setting out of bounds, or for settings that contradict each other.
    """

    group_id: str | None = setting(
        None, "The group that divides partitions and keeps offsets. None: no group.", importance="high"
    )
    partition_assignment_strategy: Sequence[str | PartitionAssignor] = setting(
        ("range", "cooperative-sticky"),
        "Assignors, the preferred first: range, roundrobin, sticky and cooperative-sticky by name, or objects of your"
        " own. The group uses the first that all its members know.",
    )
    enable_auto_commit: bool | None = setting(
        None, "Whether positions are committed automatically. None: if there is a group."
    )
    auto_offset_reset: str = setting(
        "latest", "Where to begin without a valid position: earliest, latest, none, or by_duration:PT1H."
    )
    isolation_level: str = setting(
        "read_uncommitted",
        "Which records to read; read_committed leaves out those of transactions that were aborted.",
        choices=ISOLATION_LEVELS,
    )
    exclude_internal_topics: bool = setting(True, "Whether a pattern passes over the broker's internal topics.")
    fetch_min_bytes: int = setting(1, "How many bytes a fetch waits for.", minimum=0, importance="high")
    fetch_max_bytes: int = setting(52_428_800, "How large the answer to a fetch may be.", minimum=1)
    fetch_max_wait_ms: int = setting(500, "How long a fetch waits for `fetch_min_bytes`.", minimum=0, importance="low")
    max_partition_fetch_bytes: int = setting(
        1_048_576, "How much one fetch takes from one partition.", minimum=1, importance="high"
    )
    max_poll_records: int = setting(500, "How many records `poll` returns at most.", minimum=1)
    check_crcs: bool = setting(True, "Whether the checksums of batches are verified.", importance="low")
    key_deserializer: str | Deserializer = setting(
        "bytes", "What becomes of keys: bytes, str, json, or a function (topic, data).", importance="high"
    )
    value_deserializer: str | Deserializer = setting(
        "bytes", "What becomes of values: bytes, str, json, or a function (topic, data).", importance="high"
    )
    interceptor_classes: Sequence[ConsumerInterceptor] = setting(
        (), "Objects whose `on_consume` and `on_commit` see the records and the commits.", importance="low"
    )
    receive_buffer_bytes: int = setting(
        -1,
        "The size of the socket's receive buffer; -1 is the system's, which grows. Kafka's default of 65536 lets the"
        " network pause while records are decoded.",
        minimum=-1,
    )
    default_api_timeout_ms: int = setting(60_000, "How long a call waits that takes no timeout of its own.", minimum=0)
    allow_auto_create_topics: bool = setting(True, "Whether reading a topic may create it, if the broker does that.")
    enable_metrics_push: bool = setting(
        True, "Whether the client's metrics are pushed to brokers that ask for them (KIP-714).", importance="low"
    )

    def __post_init__(self) -> None:
        """Check the values, alone and together. Raises ValueError, TypeError."""
        super().__post_init__()
        parse_offset_reset(self.auto_offset_reset)
        self.deserializers()
        self.interceptors()
        if self.group_id == "":
            raise ValueError("The configured group_id should not be an empty string or whitespace.")
        if self.group_id is None and self.enable_auto_commit:
            raise ValueError("enable_auto_commit cannot be set to true when the default group id is used")
        self._check_protocol()

    def _check_protocol(self) -> None:
        """Check that no setting belongs to the other group protocol.

        A value that equals the default passes: it says nothing else than the default does. Raises ValueError.
        """
        names = _SETTINGS_OF_OTHER_PROTOCOL[GroupProtocol(self.group_protocol)]
        defaults = {each.name: each.default for each in settings_of(type(self))}
        changed = [name for name in names if getattr(self, name) != defaults[name]]
        if changed:
            raise ValueError(f"{', '.join(changed)} cannot be set when group_protocol={self.group_protocol.upper()}")

    def deserializers(self) -> Deserializers:
        """Return the deserializers of keys and values."""
        return Deserializers(self.key_deserializer, self.value_deserializer)

    def interceptors(self) -> ConsumerInterceptors:
        """Return the interceptors."""
        return ConsumerInterceptors(self.interceptor_classes)

    @property
    def isolation(self) -> int:
        """The isolation level as the number that requests carry."""
        return ISOLATION_LEVELS[self.isolation_level]

    def group_config(self) -> GroupRebalanceConfig | None:
        """Return the settings for group membership, or None without a group."""
        if self.group_id is None:
            return None
        shared = {each.name: getattr(self, each.name) for each in fields(GroupSettings)}
        commits = self.enable_auto_commit is not False
        return GroupRebalanceConfig(group_id=self.group_id, enable_auto_commit=commits, **shared)
