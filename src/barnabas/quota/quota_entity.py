"""The entity that a quota is for, the resource that it limits, and the sanitized names of users and clients.

Immutable values and pure functions, for any thread. Entities are made by `metadata` from the store, and looked up by
`quota_limits`. Names are sanitized, that is percent-encoded, in paths of the store and in names of metrics.
Kafka: ClientQuotaManager.KafkaQuotaEntity, QuotaType, QuotaConfig, org.apache.kafka.common.utils.Sanitizer.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Final, NamedTuple
from urllib.parse import quote, unquote_plus

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
IP_CONNECTION_RATE: Final = "connection_creation_rate"
"""The names of the settings that set quotas."""

DEFAULT_NAME: Final = "<default>"
"""The name for every client without an entry of its own; no sanitized name equals it."""


class QuotaType(Enum):
    """The limited resource; the values are the types of Kafka's metrics."""

    PRODUCE = "Produce"
    FETCH = "Fetch"
    REQUEST = "Request"
    CONTROLLER_MUTATION = "ControllerMutation"


class KafkaQuotaEntity(NamedTuple):
    """A user, a client id, or both: sanitized names, `DEFAULT_NAME`, or None for a part that does not matter."""

    user: str | None
    client_id: str | None

    def __str__(self) -> str:
        parts = []
        if self.user is not None:
            parts.append("default user" if self.user == DEFAULT_NAME else f"user {self.user}")
        if self.client_id is not None:
            parts.append("default client-id" if self.client_id == DEFAULT_NAME else f"client-id {self.client_id}")
        return " ".join(parts)


_is_safe: Final = re.compile(r"[a-zA-Z0-9._-]*").fullmatch


def sanitize(name: str) -> str:
    """Percent-encode all but letters, digits, dot, hyphen and underscore."""
    # The usual name needs no encoding. `quote` leaves the tilde alone, java.net.URLEncoder does not.
    return name if _is_safe(name) else quote(name, safe="").replace("~", "%7E")


def desanitize(name: str) -> str:
    """Return the name behind a sanitized one."""
    return unquote_plus(name)
