"""Client metrics (KIP-714).

Messages only, in the notation of `protocol.schema`; a message belongs to the code that holds it.

Kafka: GetTelemetrySubscriptionsRequest, PushTelemetryRequest and their responses, in common/message/*.json.
"""

from __future__ import annotations

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.message_spec import MessageSpec
from barnabas.protocol.schema import Int8, Int16, Int32, Uuid, field


# v0: KIP-714. The zero id asks the broker to choose one.
class GetTelemetrySubscriptionsRequest(
    MessageSpec, api=ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, versions="0", flexible="0+"
):
    client_instance_id: Uuid = field("0+")


class GetTelemetrySubscriptionsResponse(
    MessageSpec, api=ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, versions="0", flexible="0+"
):
    throttle_time_ms: Int32 = field("0+")
    error_code: Int16 = field("0+")
    client_instance_id: Uuid = field("0+")
    subscription_id: Int32 = field("0+")
    accepted_compression_types: list[Int8] = field("0+")
    push_interval_ms: Int32 = field("0+")
    telemetry_max_bytes: Int32 = field("0+")
    delta_temporality: bool = field("0+")
    requested_metrics: list[str] = field("0+")


class PushTelemetryRequest(MessageSpec, api=ApiKey.PUSH_TELEMETRY, versions="0", flexible="0+"):
    client_instance_id: Uuid = field("0+")
    subscription_id: Int32 = field("0+")
    terminating: bool = field("0+")
    compression_type: Int8 = field("0+")
    metrics: bytes = field("0+")


class PushTelemetryResponse(MessageSpec, api=ApiKey.PUSH_TELEMETRY, versions="0", flexible="0+"):
    throttle_time_ms: Int32 = field("0+")
    error_code: Int16 = field("0+")
