"""The producer's settings: Kafka's names with underscores, Kafka's defaults. Immutable.

Made by users and by `Producer`, on any thread. Kafka: ProducerConfig.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from barnabas.clients.producer.partition_choice import Partitioner, partitioner_of
from barnabas.clients.producer.producer_record import ProducerInterceptor
from barnabas.clients.producer.serializers import Serializer, serializer_of
from barnabas.clients.settings.client_config import ClientConfig
from barnabas.clients.settings.notation import setting
from barnabas.records.compression import Codec

_ACKS = {"all": -1, "-1": -1, "0": 0, "1": 1}
# Brokers remember the last five batches of each producer and partition. With more in flight, they could not tell a
# duplicate from a gap.
_MAX_IN_FLIGHT_WITH_IDEMPOTENCE = 5


@dataclass(frozen=True, kw_only=True)
class ProducerConfig(ClientConfig):
    """The settings of one producer. Sizes are bytes, times milliseconds.

    Raises ValueError, with Kafka's text, for settings that contradict each other; TypeError for a wrong name or type.

    `delivery_timeout_ms` covers everything from `send` to the answer, retries included, and must be at least
    `request_timeout_ms + linger_ms`.
    """

    acks: int | Literal["all"] = setting(
        "all", "Which replicas must have a record: all (or -1), 1 (the leader) or 0.", importance="low"
    )
    linger_ms: int = setting(0, "How long a batch waits for more records.", minimum=0)
    batch_size: int = setting(16_384, "How large a batch grows. 0 sends each record in a batch of its own.", minimum=0)
    buffer_memory: int = setting(
        33_554_432, "How much memory the records that wait may take.", minimum=1, importance="high"
    )
    max_block_ms: int = setting(60_000, "How long `send` waits for metadata and memory.", minimum=0)
    max_request_size: int = setting(1_048_576, "How large a request, and thus a record, may be.", minimum=1)
    compression_type: str = setting(
        "none", "The codec of batches.", choices=("none", "gzip", "snappy", "lz4", "zstd"), importance="high"
    )
    compression_level: int | None = setting(None, "The codec's level. None is the codec's own default.")
    receive_buffer_bytes: int = setting(
        32_768, "The size of the socket's receive buffer; -1 is the system's, which grows.", minimum=-1
    )
    retries: int = setting(2**31 - 1, "How often a batch is sent again.", minimum=0, importance="high")
    delivery_timeout_ms: int = setting(120_000, "How long a record may take, from `send` to the answer.", minimum=0)
    max_in_flight_requests_per_connection: int = setting(
        5, "How many requests may be unanswered on one connection.", minimum=1, importance="low"
    )
    enable_idempotence: bool | None = setting(
        None,
        "Whether every record is stored once and in order, whatever is sent again. None: yes, unless the `acks`,"
        " `retries` or `max_in_flight_requests_per_connection` that are given rule it out.",
        importance="low",
    )
    transactional_id: str | None = setting(
        None,
        "The name under which the producer's transactions go on after a restart; it fences the earlier instance."
        " None: no transactions.",
        importance="low",
    )
    transaction_timeout_ms: int = setting(
        60_000, "How long a transaction may be open before its coordinator aborts it.", minimum=1, importance="low"
    )
    key_serializer: str | Serializer = setting(
        "bytes",
        "How keys become bytes: bytes (as they are), str, json, or a function of topic and key.",
        importance="high",
    )
    value_serializer: str | Serializer = setting(
        "bytes",
        "How values become bytes: bytes (as they are), str, json, or a function of topic and value.",
        importance="high",
    )
    interceptor_classes: Sequence[ProducerInterceptor] = setting(
        (), "Objects that see each record before it is sent, and each result.", importance="low"
    )
    partitioner_class: str | Partitioner = setting(
        "sticky",
        "How partitions are chosen: sticky (by the key's hash; without a key, one partition for each batch),"
        " round_robin, or a function of topic, key, value and cluster.",
    )
    partitioner_adaptive_partitioning_enable: bool = setting(
        True,
        "Whether records without a key prefer the partitions with fewer batches waiting (KIP-794).",
        importance="low",
    )
    partitioner_availability_timeout_ms: int = setting(
        0,
        "How long a broker may take no batches before records without a key avoid it. 0: for ever.",
        minimum=0,
        importance="low",
    )
    metadata_max_idle_ms: int = setting(
        300_000, "How long the client remembers a topic that is not used.", minimum=0, importance="low"
    )
    partitioner_ignore_keys: bool = setting(False, "Whether records with a key go to any partition.")
    enable_metrics_push: bool = setting(
        True, "Whether the client's metrics are pushed to brokers that ask for them (KIP-714).", importance="low"
    )

    def __post_init__(self) -> None:
        """Check the values, alone and together. Raises TypeError, ValueError."""
        super().__post_init__()
        if str(self.acks) not in _ACKS:
            raise ValueError(f"acks must be 'all', 0 or 1, not {self.acks!r}")
        Codec.from_name(self.compression_type)
        serializer_of("key_serializer", self.key_serializer)
        serializer_of("value_serializer", self.value_serializer)
        partitioner_of(self.partitioner_class)
        if self.delivery_timeout_ms < self.request_timeout_ms + self.linger_ms:
            raise ValueError("delivery_timeout_ms should be equal to or larger than linger_ms + request_timeout_ms")
        obstacle = self._idempotence_obstacle()
        if self.transactional_id is not None:
            if not self.transactional_id:
                raise ValueError("transactional_id must not be empty")
            if self.enable_idempotence is False:
                raise ValueError("Cannot set a transactional_id without also enabling idempotence.")
        if (self.enable_idempotence or self.transactional_id is not None) and obstacle is not None:
            raise ValueError(obstacle)

    def _idempotence_obstacle(self) -> str | None:
        """Return the first setting that rules idempotence out, as an error's text; None when there is none."""
        if self.acks_number != -1:
            return f"Must set acks to all in order to use the idempotent producer, not to {self.acks!r}."
        if self.retries == 0:
            return "Must set retries to non-zero when using the idempotent producer."
        in_flight = self.max_in_flight_requests_per_connection
        if in_flight > _MAX_IN_FLIGHT_WITH_IDEMPOTENCE:
            return (
                "Must set max_in_flight_requests_per_connection to at most 5 to use the idempotent producer,"
                f" not to {in_flight}."
            )
        return None

    @cached_property
    def is_idempotent(self) -> bool:
        """Whether the producer is idempotent: `enable_idempotence`, or what follows from the other settings."""
        if self.enable_idempotence is not None:
            return self.enable_idempotence
        return self._idempotence_obstacle() is None

    @property
    def acks_number(self) -> int:
        """The setting `acks` as the number that requests carry: -1, 0 or 1."""
        return _ACKS[str(self.acks)]

    @cached_property
    def largest_record(self) -> int:
        """The bytes that one record may take, with the header of its batch."""
        return min(self.max_request_size, self.buffer_memory)

    @property
    def largest_record_setting(self) -> str:
        """Kafka's name of the setting that limits a record's size."""
        return "max.request.size" if self.max_request_size <= self.buffer_memory else "buffer.memory"

    @cached_property
    def codec(self) -> Codec:
        """The codec that `compression_type` names."""
        return Codec.from_name(self.compression_type)
