"""The rules for names of topics.

Pure functions, used on any thread. Error texts are Kafka's. Kafka: org.apache.kafka.common.internals.Topic.
"""

from __future__ import annotations

import string

from barnabas.protocol.errors import ApiError, ErrorCode

GROUP_METADATA_TOPIC = "__consumer_offsets"
TRANSACTION_STATE_TOPIC = "__transaction_state"
SHARE_GROUP_STATE_TOPIC = "__share_group_state"
CLUSTER_METADATA_TOPIC = "__cluster_metadata"
"""The log of KRaft's controllers, which no client may create: a start passes over its directories."""
INTERNAL_TOPICS = frozenset({GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, SHARE_GROUP_STATE_TOPIC})
# Leaves room for the partition in the name of a log directory, for which file systems allow 255 characters.
MAX_NAME_LENGTH = 249
_LEGAL = frozenset(string.ascii_letters + string.digits + "._-")


def invalid_reason(name: str) -> str | None:
    """Return why `name` cannot be the name of a topic, or None if it can."""
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > MAX_NAME_LENGTH:
        return f"the length of '{name}' is longer than the max allowed length {MAX_NAME_LENGTH}"
    if not _LEGAL.issuperset(name):
        return f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None


def validate_topic_name(name: str) -> None:
    """Check the name of a topic. Raises ApiError: INVALID_TOPIC_EXCEPTION."""
    reason = invalid_reason(name)
    if reason is not None:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {reason}")


def validate_new_topic_name(name: str) -> None:
    """Check the name of a topic to create. Raises ApiError: INVALID_REQUEST, INVALID_TOPIC_EXCEPTION."""
    if name == CLUSTER_METADATA_TOPIC:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited.")
    validate_topic_name(name)


def is_internal(name: str) -> bool:
    """Return whether a topic is internal."""
    return name in INTERNAL_TOPICS


def has_collision_characters(name: str) -> bool:
    """Return whether another topic could have the same metric names."""
    return "_" in name or "." in name


def has_collision(first: str, second: str) -> bool:
    """Return whether two topics have the same metric names, in which '.' becomes '_'."""
    return first.replace(".", "_") == second.replace(".", "_")
