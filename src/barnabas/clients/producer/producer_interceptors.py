"""The user's interceptors, which see each record before it is serialized, and each result.

`on_send` runs on the thread that calls `send`; `on_acknowledgement` on the sending thread, or on the thread that closes
the producer. No lock. Errors of an interceptor are logged, never raised. Kafka: ProducerInterceptors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from barnabas.clients.interceptors import Interceptors
from barnabas.clients.producer.producer_record import DeliveryCallback, Headers, RecordMetadata


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
        """Keep the interceptors. Raises TypeError for an object that is none."""
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
