"""A message as JSON with Kafka's names, for the request log: every field except records and secrets.

Pure; called on the thread that received a request, or sent its answer.

Kafka: RequestConvertToJson, RequestChannel.Request.loggableRequest.
"""

from __future__ import annotations

import base64
from functools import cache
from typing import Any, Final

from barnabas.config.broker_config_keys import BROKER_CONFIG_KEYS
from barnabas.config.config_key import ConfigKey
from barnabas.config.topic_config_keys import TOPIC_CONFIG_KEYS
from barnabas.protocol.config_codes import ConfigResourceType
from barnabas.protocol.message_struct import Struct
from barnabas.protocol.messages.configs import AlterConfigsRequest, IncrementalAlterConfigsRequest
from barnabas.protocol.messages.message import Message
from barnabas.protocol.schema import FieldSchema, WireType
from barnabas.protocol.uuid import uuid_to_string

HIDDEN: Final = "[hidden]"
SECRETS: Final = frozenset({"auth_bytes", "hmac", "salt", "salted_password"})
"""Fields that no log needs. (Kafka writes them.)"""

Json = dict[str, Any]


def message_json(message: Message, version: int) -> Json:
    """Return the fields that this version has, by Kafka's names; of records only their size, values of secret
    settings hidden."""
    json = _struct(message, version)
    if isinstance(message, AlterConfigsRequest | IncrementalAlterConfigsRequest):
        for resource in json["resources"]:
            for config in resource["configs"]:
                if config["value"] is not None and _is_secret(resource["resourceType"], config["name"]):
                    config["value"] = HIDDEN
    return json


def _is_secret(resource_type: int, name: str) -> bool:
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


def _struct(struct: Struct, version: int) -> Json:
    json: Json = {}
    for field in type(struct).field_schemas():
        value = getattr(struct, field.name)
        # As Kafka's generated JSON converters: tagged fields appear only when they are on the wire.
        if not field.is_present(version) or (field.is_tagged(version) and _is_default(value, field)):
            continue
        if field.wire_type is WireType.RECORDS:
            json[_camel_case(field.name) + "SizeInBytes"] = 0 if value is None else len(value)
        # By name, whatever the message: a log outlives its request, and is read by more people than the answer.
        elif field.name in SECRETS:
            json[_camel_case(field.name)] = HIDDEN
        elif field.is_array and value is not None:
            json[_camel_case(field.name)] = [_value(item, field.wire_type, version) for item in value]
        else:
            json[_camel_case(field.name)] = _value(value, field.wire_type, version)
    return json


def _is_default(value: Any, field: FieldSchema) -> bool:
    if isinstance(field.default, bool | int | float | str | bytes) or field.default is None:
        return bool(value == field.default)
    return not value if field.is_array else bool(value == type(value)())


def _value(value: Any, wire_type: WireType, version: int) -> Any:
    if value is None:
        return None
    if wire_type is WireType.STRUCT:
        return _struct(value, version)
    if wire_type is WireType.UUID:
        return uuid_to_string(value)
    if wire_type is WireType.BYTES:
        return base64.b64encode(value).decode("ascii")
    return int(value) if isinstance(value, int) and not isinstance(value, bool) else value


@cache
def _camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)
