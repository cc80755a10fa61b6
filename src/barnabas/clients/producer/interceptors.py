"""The user's interceptors, which see each record before it is serialized, and each result.

`on_send` runs on the thread that calls `send`; `on_acknowledgement` on the sending thread, or on the thread that closes
the producer. No lock. Errors of an interceptor are logged, never raised. Kafka: ProducerInterceptors.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from barnabas.clients.producer.producer_record import Headers
from barnabas.clients.producer.record_metadata import DeliveryCallback, RecordMetadata

logger = logging.getLogger(__name__)


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


class ProducerInterceptors:
    """The interceptors of one producer, called in their order."""

    def __init__(self, interceptors: Sequence[ProducerInterceptor]) -> None:
        self._interceptors = tuple(interceptors)

    def __bool__(self) -> bool:
        return bool(self._interceptors)

    def on_send(self, record: OutgoingRecord) -> OutgoingRecord:
        """Return the record after all interceptors. One that raises, or returns no record, is passed over."""
        for interceptor in self._interceptors:
            try:
                changed: object = interceptor.on_send(record)
                # A forgotten `return`, most likely.
                if not isinstance(changed, OutgoingRecord):
                    raise TypeError(f"on_send must return an OutgoingRecord, not {changed!r}")
                record = changed
            except Exception:
                logger.exception("Error executing interceptor on_send for topic %s", record.topic)
        return record

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: BaseException | None) -> None:
        """Show a result to all interceptors."""
        for interceptor in self._interceptors:
            try:
                interceptor.on_acknowledgement(metadata, error)
            except Exception:
                logger.exception("Error executing interceptor on_acknowledgement for %s", metadata)

    def observed(self, callback: DeliveryCallback | None) -> DeliveryCallback:
        """Return a delivery callback that calls the interceptors and then the user's callback."""

        def on_delivery(metadata: RecordMetadata | None, error: BaseException | None) -> None:
            self.on_acknowledgement(metadata, error)
            if callback is not None:
                callback(metadata, error)

        return on_delivery

    def close(self) -> None:
        """Close all interceptors."""
        for interceptor in self._interceptors:
            try:
                interceptor.close()
            except Exception:
                logger.exception("Failed to close producer interceptor %r", interceptor)
