"""The metrics that a broker wants of this client, and the states of the client's telemetry, as one table. Pure.

Read by `ClientTelemetry`, on the client's thread; no lock. The usual life of a client whose broker wants its metrics:

    SUBSCRIPTION_NEEDED -> SUBSCRIPTION_IN_PROGRESS                 GetTelemetrySubscriptions is sent
    SUBSCRIPTION_IN_PROGRESS -> PUSH_NEEDED                         the answer names metrics; an interval begins
    PUSH_NEEDED -> PUSH_IN_PROGRESS -> PUSH_NEEDED                  a push after each interval
    PUSH_NEEDED -> TERMINATING_PUSH_NEEDED                          the client is closed
    TERMINATING_PUSH_NEEDED -> TERMINATING_PUSH_IN_PROGRESS         the last push is sent, without an interval
    TERMINATING_PUSH_IN_PROGRESS -> TERMINATED                      its answer is there, or the time for it is over

An answer that names no metrics, an error and a lost connection lead back to SUBSCRIPTION_NEEDED.

Kafka: ClientTelemetrySubscription, ClientTelemetryState, ClientTelemetryUtils.maybeFetchErrorIntervalMs.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple, Self

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.telemetry import GetTelemetrySubscriptionsResponse
from barnabas.records.compression import Codec

DEFAULT_INTERVAL_MS: Final = 300_000
"""The wait where no broker has named an interval. Kafka: ClientTelemetryReporter.DEFAULT_PUSH_INTERVAL_MS."""


class TelemetryState(Enum):
    """The states of the module's docstring, in Kafka's words."""

    SUBSCRIPTION_NEEDED = "SUBSCRIPTION_NEEDED"
    SUBSCRIPTION_IN_PROGRESS = "SUBSCRIPTION_IN_PROGRESS"
    PUSH_NEEDED = "PUSH_NEEDED"
    PUSH_IN_PROGRESS = "PUSH_IN_PROGRESS"
    TERMINATING_PUSH_NEEDED = "TERMINATING_PUSH_NEEDED"
    TERMINATING_PUSH_IN_PROGRESS = "TERMINATING_PUSH_IN_PROGRESS"
    TERMINATED = "TERMINATED"

    @property
    def is_terminating(self) -> bool:
        """Whether the last push is due or in flight."""
        return self in _TERMINATING


class TelemetryEvent(Enum):
    """An event that moves a client's telemetry to another state."""

    SENT = "the request that is needed is sent"
    SUBSCRIBED = "the answer names metrics"
    NOTHING_WANTED = "the answer names no metrics"
    PUSHED = "the broker has taken a push"
    FAILED = "an error that may pass, or a lost connection"
    REJECTED = "an error that no retry mends"
    CLOSING = "the client is being closed"
    ENDED = "the client is closed, or the time for the last push is over"


_NEEDED = TelemetryState.SUBSCRIPTION_NEEDED
_ASKED = TelemetryState.SUBSCRIPTION_IN_PROGRESS
_PUSH = TelemetryState.PUSH_NEEDED
_PUSHING = TelemetryState.PUSH_IN_PROGRESS
_LAST = TelemetryState.TERMINATING_PUSH_NEEDED
_LAST_PUSHING = TelemetryState.TERMINATING_PUSH_IN_PROGRESS
_TERMINATED = TelemetryState.TERMINATED

_TERMINATING: Final = frozenset({_LAST, _LAST_PUSHING})

TRANSITIONS: Final[Mapping[TelemetryState, Mapping[TelemetryEvent, TelemetryState]]] = {
    _NEEDED: {
        TelemetryEvent.SENT: _ASKED,
        # Metrics that no broker wants now need no last push.
        TelemetryEvent.CLOSING: _TERMINATED,
        TelemetryEvent.ENDED: _TERMINATED,
    },
    _ASKED: {
        TelemetryEvent.SUBSCRIBED: _PUSH,
        TelemetryEvent.NOTHING_WANTED: _NEEDED,
        TelemetryEvent.FAILED: _NEEDED,
        TelemetryEvent.REJECTED: _TERMINATED,
        TelemetryEvent.CLOSING: _TERMINATED,
        TelemetryEvent.ENDED: _TERMINATED,
    },
    _PUSH: {
        TelemetryEvent.SENT: _PUSHING,
        TelemetryEvent.CLOSING: _LAST,
        TelemetryEvent.ENDED: _TERMINATED,
    },
    _PUSHING: {
        TelemetryEvent.PUSHED: _PUSH,
        TelemetryEvent.FAILED: _NEEDED,
        TelemetryEvent.REJECTED: _TERMINATED,
        TelemetryEvent.CLOSING: _LAST,
        TelemetryEvent.ENDED: _TERMINATED,
    },
    _LAST: {
        TelemetryEvent.SENT: _LAST_PUSHING,
        TelemetryEvent.CLOSING: _LAST,
        TelemetryEvent.ENDED: _TERMINATED,
    },
    _LAST_PUSHING: {
        TelemetryEvent.PUSHED: _TERMINATED,
        TelemetryEvent.FAILED: _TERMINATED,
        TelemetryEvent.REJECTED: _TERMINATED,
        TelemetryEvent.CLOSING: _LAST_PUSHING,
        TelemetryEvent.ENDED: _TERMINATED,
    },
    _TERMINATED: {
        TelemetryEvent.CLOSING: _TERMINATED,
        TelemetryEvent.ENDED: _TERMINATED,
    },
}
"""The state that follows, by state and event; no other event may come in a state."""


class Retry(Enum):
    """The time after which a client asks for its subscription again after an error."""

    AT_ONCE = "at once"
    AFTER_INTERVAL = "after the interval between pushes"
    NEVER = "never"


_RETRIES: Final = {
    ErrorCode.UNKNOWN_SUBSCRIPTION_ID: Retry.AT_ONCE,
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: Retry.AT_ONCE,
    ErrorCode.TELEMETRY_TOO_LARGE: Retry.AFTER_INTERVAL,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: Retry.AFTER_INTERVAL,
}


def retry_after(error: ErrorCode) -> Retry:
    """Return when to ask again after this error of the broker. An error that KIP-714 does not name ends telemetry."""
    return _RETRIES.get(error, Retry.NEVER)


class TelemetrySubscription(NamedTuple):
    """What a broker wants, and how. `id` changes with the broker's subscriptions; `instance_id` has 16 bytes.

    `codec`: the compression of pushes. `prefixes`: of the names of the metrics that are wanted.
    """

    instance_id: bytes
    id: int
    interval_ms: int
    codec: Codec
    is_delta: bool
    prefixes: tuple[str, ...]

    @classmethod
    def of(cls, answer: GetTelemetrySubscriptionsResponse) -> Self:
        """Return the subscription of an answer without an error."""
        return cls(
            answer.client_instance_id,
            answer.subscription_id,
            answer.push_interval_ms if answer.push_interval_ms > 0 else DEFAULT_INTERVAL_MS,
            _preferred_codec(answer.accepted_compression_types),
            answer.delta_temporality,
            # One "*" asks for all metrics, as the empty prefix does.
            ("",) if answer.requested_metrics == ["*"] else tuple(answer.requested_metrics),
        )

    def wants(self, name: str) -> bool:
        """Return whether a metric is wanted."""
        return name.startswith(self.prefixes)


def _preferred_codec(accepted: list[int]) -> Codec:
    """Return the first codec that is known here: the broker names those that it accepts, the best one first."""
    return next((Codec(each) for each in accepted if each in Codec.__members__.values()), Codec.NONE)
