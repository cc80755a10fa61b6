"""The metrics that a broker wants of this client, and how it wants them: an answer to GetTelemetrySubscriptions.

Made and read by `ClientTelemetry`, on the client's thread. Immutable, so no lock. Kafka: ClientTelemetrySubscription.
"""

from __future__ import annotations

from typing import NamedTuple, Self

from barnabas.clients.telemetry.states import DEFAULT_INTERVAL_MS
from barnabas.protocol.messages.telemetry import GetTelemetrySubscriptionsResponse
from barnabas.records.compression import Codec


class TelemetrySubscription(NamedTuple):
    """One subscription. `id` changes with the broker's subscriptions; `instance_id` has 16 bytes.

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
