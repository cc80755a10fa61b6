"""GetTelemetrySubscriptions: v0. PushTelemetry: v0 (KIP-714): client metrics, for which there is no receiver here.

Brief. ApiVersions does not name these APIs, as Kafka's does not where no receiver is configured; who sends one all the
same gets the answer of Kafka in ZooKeeper mode.

Kafka: KafkaApis.handleGetTelemetrySubscriptionsRequest and handlePushTelemetryRequest.
"""

from __future__ import annotations

from barnabas.api.request import Request
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.telemetry import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
    PushTelemetryRequest,
    PushTelemetryResponse,
)


class TelemetryApi:
    """Takes no metrics of clients."""

    def get_telemetry_subscriptions(self, request: Request[GetTelemetrySubscriptionsRequest]) -> None:
        """Always refuse."""
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)

    def push_telemetry(self, request: Request[PushTelemetryRequest]) -> None:
        """Always refuse."""
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)

    @staticmethod
    def subscriptions_error(
        request: Request[GetTelemetrySubscriptionsRequest], code: ErrorCode, message: str | None
    ) -> GetTelemetrySubscriptionsResponse:
        """A top-level error."""
        return GetTelemetrySubscriptionsResponse(error_code=code)

    @staticmethod
    def push_error(
        request: Request[PushTelemetryRequest], code: ErrorCode, message: str | None
    ) -> PushTelemetryResponse:
        """A top-level error."""
        return PushTelemetryResponse(error_code=code)
