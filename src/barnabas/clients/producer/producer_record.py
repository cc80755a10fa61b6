"""A record before it is appended to a batch, its place in the topic afterwards, and the interceptors that see both.

Records are immutable. A ProducerRecord is made by `Producer.send` on the user's thread, once its partition's metadata
is known, and read under the accumulator's lock. An interceptor's `on_send` runs on the thread that calls `send`;
`on_acknowledgement` on the sending thread, or on the thread that closes the producer. No lock.
Kafka: ProducerRecord, RecordMetadata, ProducerInterceptors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

from barnabas.clients.interceptors import Interceptors
from barnabas.records.compression import Buffer

_TIMESTAMP_END = 1 << 63

Headers: TypeAlias = Sequence[tuple[str, Buffer | None]]


class RecordMetadata(NamedTuple):
    """The partition and offset of a record, which the future of `Producer.send` yields. `offset` is -1 with acks=0.

    Sizes are bytes, -1 for null. `timestamp_ms` is the broker's if the topic has message.timestamp.type=LogAppendTime.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key_size: int = -1
    value_size: int = -1


DeliveryCallback: TypeAlias = Callable[[RecordMetadata | None, BaseException | None], None]
"""A user's function. The sending thread calls it once for each record, with the metadata or the error."""


class ProducerRecord(NamedTuple):
    """A record without its topic. `size`: the largest number of bytes that it takes in a batch, uncompressed."""

    timestamp_ms: int
    key: Buffer | None
    value: Buffer | None
    headers: Headers
    size: int
    callback: DeliveryCallback | None = None


def check_partition(partition: int) -> None:
    """Check the partition that a user gives. Raises ValueError below 0."""
    if partition < 0:
        raise ValueError(f"Invalid partition: {partition}. Partition number should always be non-negative.")


def check_timestamp(timestamp_ms: int) -> None:
    """Check the time that a user gives, in milliseconds since the epoch. Raises ValueError outside of 63 bits."""
    if not 0 <= timestamp_ms < _TIMESTAMP_END:
        raise ValueError(f"Invalid timestamp: {timestamp_ms}. Timestamp should always be non-negative.")


class OutgoingRecord(NamedTuple):
    """A record as `send` was called with it. An interceptor returns another one by `_replace`."""

    topic: str
    value: Any
    key: Any
    headers: Headers
    partition: int | None
    timestamp_ms: int | None


class ProducerInterceptor(Protocol):
    """An object that sees all records of a producer."""

    def on_send(self, record: OutgoingRecord) -> OutgoingRecord:
        """Return the record to send: the same, or a changed one."""

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: BaseException | None) -> None:
        """See the place of a record that was stored, or the error of one that was not. Return soon."""

    def close(self) -> None:
        """Let go of what the interceptor holds, when the producer closes."""


class ProducerInterceptors(Interceptors[ProducerInterceptor]):
    """The interceptors of one producer, called in their order."""

    def __init__(self, interceptors: Sequence[ProducerInterceptor]) -> None:
        """Keep the interceptors. Raises TypeError for an object that is not an interceptor."""
        super().__init__(interceptors, ("on_send", "on_acknowledgement", "close"))

    def on_send(self, record: OutgoingRecord) -> OutgoingRecord:
        """Return the record after all interceptors. One that raises, or returns no record, is passed over."""
        return self._pass_through("on_send", record, OutgoingRecord, "an OutgoingRecord")

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: BaseException | None) -> None:
        """Show a result to all interceptors."""
        self._call_all("on_acknowledgement", metadata, error)

    def observed(self, callback: DeliveryCallback | None) -> DeliveryCallback:
        """Return a delivery callback that calls the interceptors and then the user's callback."""

        def on_delivery(metadata: RecordMetadata | None, error: BaseException | None) -> None:
            self.on_acknowledgement(metadata, error)
            if callback is not None:
                callback(metadata, error)

        return on_delivery
