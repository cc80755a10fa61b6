"""The request log: one line per request with its JSON, once its answer has left, on `kafka.request.logger`.

The logger is at DEBUG, as in Kafka, and off unless the level is set (kafka-configs --entity-type broker-loggers).
`received` is called by the request parser, `completed` by the network layer's RequestMetrics, both on the Processor's
thread, and only while `enabled`; `refresh` by the scheduler. No lock: `enabled` is one flag, and lines belong to the
logging module. The JSON has Kafka's names, and every field except records and secrets.

Kafka: RequestConvertToJson, RequestChannel.Request.loggableRequest, the end of updateRequestMetrics.
"""

from __future__ import annotations

import base64
import json
import logging
from functools import cache
from typing import Any, Final

from barnabas.api.request import Request, RequestNotes
from barnabas.config.broker_config_keys import BROKER_CONFIG_KEYS
from barnabas.config.config_key import ConfigKey
from barnabas.config.topic_config_keys import TOPIC_CONFIG_KEYS
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.codes import ConfigResourceType
from barnabas.protocol.kafka_releases import FIRST_CURRENT_VERSION
from barnabas.protocol.message_struct import Struct
from barnabas.protocol.messages.message import Message
from barnabas.protocol.schema import FieldSchema, WireType
from barnabas.protocol.uuid import uuid_to_string

LOGGER_NAME: Final = "kafka.request.logger"
REFRESH_INTERVAL_MS: Final = 1000
HIDDEN: Final = "[hidden]"
SECRET_FIELDS: Final = frozenset({"auth_bytes", "hmac", "salt", "salted_password"})
"""Fields that no log needs. (Kafka writes them.)"""

SETTINGS_CHANGES: Final = (ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS)

Json = dict[str, Any]

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


def message_json(message: Message, version: int) -> Json:
    """Return the fields that this version has, by Kafka's names; of records only their size, values of secret
    settings hidden."""
    json = _struct_json(message, version)
    if message.api_key in SETTINGS_CHANGES:
        # Of a response it is other fields.
        for resource in json.get("resources", ()):
            for config in resource["configs"]:
                if config["value"] is not None and _is_secret_setting(resource["resourceType"], config["name"]):
                    config["value"] = HIDDEN
    return json


def _is_secret_setting(resource_type: int, name: str) -> bool:
    """Return whether a value is hidden: a setting that no table knows may be a password."""
    key: ConfigKey | None = None
    if resource_type == ConfigResourceType.TOPIC:
        topic_key = TOPIC_CONFIG_KEYS.get(name)
        key = None if topic_key is None else topic_key.key
    elif resource_type == ConfigResourceType.BROKER:
        key = BROKER_CONFIG_KEYS.get(name)
    elif resource_type in (ConfigResourceType.BROKER_LOGGER, ConfigResourceType.CLIENT_METRICS):
        return False
    # Unknown settings count as secrets: an unknown name may be a misspelt password.
    return key is None or key.is_sensitive


def _struct_json(struct: Struct, version: int) -> Json:
    json: Json = {}
    for field in type(struct).field_schemas():
        value = getattr(struct, field.name)
        # As Kafka's generated JSON converters: tagged fields appear only when they are on the wire.
        if not field.is_present(version) or (field.is_tagged(version) and _is_default(value, field)):
            continue
        if field.wire_type is WireType.RECORDS:
            json[_camel_case(field.name) + "SizeInBytes"] = 0 if value is None else len(value)
        # By name, whatever the message: a log outlives its request, and is read by more people than the answer.
        elif field.name in SECRET_FIELDS:
            json[_camel_case(field.name)] = HIDDEN
        elif field.is_array and value is not None:
            json[_camel_case(field.name)] = [_value_json(item, field.wire_type, version) for item in value]
        else:
            json[_camel_case(field.name)] = _value_json(value, field.wire_type, version)
    return json


def _is_default(value: Any, field: FieldSchema) -> bool:
    if isinstance(field.default, bool | int | float | str | bytes) or field.default is None:
        return bool(value == field.default)
    return not value if field.is_array else bool(value == type(value)())


def _value_json(value: Any, wire_type: WireType, version: int) -> Any:
    if value is None:
        return None
    if wire_type is WireType.STRUCT:
        return _struct_json(value, version)
    if wire_type is WireType.UUID:
        return uuid_to_string(value)
    if wire_type is WireType.BYTES:
        return base64.b64encode(value).decode("ascii")
    return int(value) if isinstance(value, int) and not isinstance(value, bool) else value


@cache
def _camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)
