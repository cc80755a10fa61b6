"""The user's interceptors, which see the records that `poll` returns, and the offsets that are committed.

Called on the consumer's thread, inside its calls; no lock. Errors of an interceptor are logged, never raised.
Kafka: ConsumerInterceptor, ConsumerInterceptors.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from barnabas.clients.consumer.consumer_record import ConsumerRecord
from barnabas.clients.consumer.group.offset_commits import Offsets

logger = logging.getLogger(__name__)


class ConsumerInterceptor:
    """The base of interceptors, which override the methods of interest."""

    def on_consume(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        """Return the records for the user: these, or others in their place."""
        return records

    def on_commit(self, offsets: Offsets) -> None:
        """Take note of offsets that the coordinator has stored."""

    def close(self) -> None:
        """Let go of what the interceptor holds, when the consumer closes."""


class ConsumerInterceptors:
    """The interceptors of one consumer, called in their order."""

    def __init__(self, interceptors: Sequence[ConsumerInterceptor]) -> None:
        """Keep the interceptors. Raises TypeError for an object that is none."""
        for each in interceptors:
            if not all(callable(getattr(each, name, None)) for name in ("on_consume", "on_commit", "close")):
                raise TypeError(
                    f"interceptor_classes must be objects with on_consume, on_commit and close, not {each!r}"
                )
        self._interceptors = tuple(interceptors)

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return bool(self._interceptors)

    def on_consume(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        """Return the records after all interceptors. One that raises, or returns no list, is passed over."""
        for interceptor in self._interceptors:
            try:
                changed: object = interceptor.on_consume(records)
                # A forgotten `return`, most likely.
                if not isinstance(changed, list):
                    raise TypeError(f"on_consume must return a list of records, not {changed!r}")
                records = changed
            except Exception:
                logger.exception("Error executing interceptor on_consume")
        return records

    def on_commit(self, offsets: Offsets) -> None:
        """Call all interceptors with offsets that were committed."""
        for interceptor in self._interceptors:
            try:
                interceptor.on_commit(offsets)
            except Exception:
                logger.exception("Error executing interceptor on_commit")

    def close(self) -> None:
        """Close all interceptors."""
        for interceptor in self._interceptors:
            try:
                interceptor.close()
            except Exception:
                logger.exception("Failed to close consumer interceptor %r", interceptor)
