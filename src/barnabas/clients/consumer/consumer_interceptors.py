"""The user's interceptors, which see the records that `poll` returns, and the offsets that are committed.

Called on the consumer's thread, inside its calls; no lock. Errors of an interceptor are logged, never raised.
Kafka: ConsumerInterceptor, ConsumerInterceptors.
"""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.clients.consumer.consumer_record import ConsumerRecord
from barnabas.clients.consumer.group.offset_commits import Offsets
from barnabas.clients.interceptors import Interceptors


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
        """Keep the interceptors. Raises TypeError for an object that is none."""
        super().__init__(interceptors, ("on_consume", "on_commit", "close"))

    def on_consume(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        """Return the records after all interceptors. One that raises, or returns no list, is passed over."""
        return self._pass_through("on_consume", records, list, "a list of records")

    def on_commit(self, offsets: Offsets) -> None:
        """Call all interceptors with offsets that were committed."""
        self._call_all("on_commit", offsets)
