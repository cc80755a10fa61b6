"""GetTelemetrySubscriptions: v0. PushTelemetry: v0 (KIP-714): client metrics, for which there is no receiver here.

Brief. ApiVersions does not name these APIs, as Kafka's does not where no receiver is configured; a client that sends
one anyway gets the answer of Kafka in ZooKeeper mode.

Kafka: KafkaApis.handleGetTelemetrySubscriptionsRequest and handlePushTelemetryRequest.
"""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.api.brief import BRIEF
from barnabas.api.request import Handler, Request
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.telemetry import GetTelemetrySubscriptionsRequest, PushTelemetryRequest


class TelemetryApi:
    """Refuses the metrics of clients (KIP-714): no part of this broker receives them."""

    def handlers(self) -> Sequence[Handler]:
        """Return the lines of the table."""
        return (
            Handler(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, self.get_telemetry_subscriptions, brief=BRIEF, listed=False),
            Handler(ApiKey.PUSH_TELEMETRY, self.push_telemetry, brief=BRIEF, listed=False),
        )

    def get_telemetry_subscriptions(self, request: Request[GetTelemetrySubscriptionsRequest]) -> None:
        """Refuse. Raises ApiError: UNSUPPORTED_VERSION."""
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)

    def push_telemetry(self, request: Request[PushTelemetryRequest]) -> None:
        """Refuse. Raises ApiError: UNSUPPORTED_VERSION."""
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
