"""The request log: one line per request with its JSON, once its answer has left, on `kafka.request.logger`.

The logger is at DEBUG, as in Kafka, and off unless the level is set (kafka-configs --entity-type broker-loggers).
`received` is called by the request parser, `completed` by the network layer's RequestMetrics, both on the Processor's
thread, and only while `enabled`; `refresh` by the scheduler. No lock: `enabled` is one flag, and lines belong to the
logging module.

Kafka: kafka.network.RequestConvertToJson, the end of RequestChannel.Request.updateRequestMetrics.
"""

from __future__ import annotations

import json
import logging
from typing import Any, Final

from barnabas.api.message_json import Json, message_json
from barnabas.api.request import Request, RequestNotes
from barnabas.protocol.deprecated_versions import FIRST_CURRENT_VERSION

LOGGER_NAME: Final = "kafka.request.logger"
REFRESH_INTERVAL_MS: Final = 1000
logger = logging.getLogger(LOGGER_NAME)
if logger.level == logging.NOTSET:
    logger.setLevel(logging.WARNING)  # as Kafka ships it: not with everything else at DEBUG


class RequestLog:
    """The log's switch and its lines. `enabled`, which the hot path reads, follows the logger's level within a
    second."""

    def __init__(self) -> None:
        self.enabled = logger.isEnabledFor(logging.DEBUG)

    def refresh(self) -> None:
        """Read the logger's level."""
        self.enabled = logger.isEnabledFor(logging.DEBUG)

    @staticmethod
    def received(request: Request[Any]) -> None:
        """Keep the body as JSON, while the frame that the body points into exists."""
        notes = request.notes = RequestNotes()
        notes.logged_body = message_json(request.body, request.header.api_version)

    @staticmethod
    def completed(request: Request[Any]) -> None:
        """Write the line of a finished request."""
        notes = request.notes
        if notes is not None and notes.logged_body is not None and logger.isEnabledFor(logging.DEBUG):
            text = json.dumps(description(request, notes), separators=(",", ":"))
            logger.debug("Completed request:%s", text)


def description(request: Request[Any], notes: RequestNotes) -> Json:
    """Return everything that Kafka's request log says, in its order. Times in milliseconds."""
    connection, answer = request.connection, request.response
    received_ns, sent_ns = request.received_ns, request.sent_ns
    # A stamp that was never set is replaced by its neighbour, so that its stage takes no time.
    dequeued_ns = request.dequeued_ns or received_ns
    completed_ns = request.response_complete_ns or sent_ns
    local_ns = request.local_complete_ns or completed_ns
    taken_ns = request.response_dequeued_ns or completed_ns
    described: Json = {
        "isForwarded": False,
        "requestHeader": _header(request),
        "request": notes.logged_body,
        "response": "" if answer is None else message_json(answer, request.header.api_version),
        "connection": connection.connection_id,
        "totalTimeMs": _milliseconds(sent_ns - received_ns),
        "requestQueueTimeMs": _milliseconds(dequeued_ns - received_ns),
        "localTimeMs": _milliseconds(local_ns - dequeued_ns),
        "remoteTimeMs": _milliseconds(completed_ns - local_ns),
        "throttleTimeMs": request.throttle_time_ms,
        "responseQueueTimeMs": _milliseconds(taken_ns - completed_ns),
        "sendTimeMs": _milliseconds(sent_ns - taken_ns),
        "securityProtocol": connection.security_protocol,
        "principal": connection.principal,
        "listener": connection.listener_name,
        "clientInformation": {
            "softwareName": connection.client_software_name,
            "softwareVersion": connection.client_software_version,
        },
    }
    if notes.temporary_memory_bytes > 0:
        described["temporaryMemoryBytes"] = notes.temporary_memory_bytes
    if notes.conversions_ns > 0:
        described["messageConversionsTime"] = _milliseconds(notes.conversions_ns)
    return described


def _header(request: Request[Any]) -> Json:
    header, api_key = request.header, request.handler.api_key
    described: Json = {
        "requestApiKey": int(api_key),
        "requestApiVersion": request.api_version,
        "correlationId": header.correlation_id,
        "clientId": header.client_id,
        "requestApiKeyName": api_key.name,
    }
    if request.api_version < FIRST_CURRENT_VERSION.get(api_key, 0):
        described["requestApiVersionDeprecated"] = True
    return described


def _milliseconds(nanoseconds: int) -> float:
    """Convert, with microseconds as Kafka has them; never below zero."""
    return max(nanoseconds, 0) // 1000 / 1000
