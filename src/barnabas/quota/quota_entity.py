"""The entity that a quota is for, and the resource that it limits.

Immutable values, made by `metadata.client_quotas` from the store, and looked up by `quota_limits`.

Kafka: ClientQuotaManager.KafkaQuotaEntity, org.apache.kafka.server.quota.QuotaType, QuotaConfig (the settings' names).
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from barnabas.quota.sanitizer import DEFAULT_NAME

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
IP_CONNECTION_RATE: Final = "connection_creation_rate"
"""The names of the settings that set quotas."""


class QuotaType(Enum):
    """The limited resource; the values are the types of Kafka's metrics."""

    PRODUCE = "Produce"
    FETCH = "Fetch"
    REQUEST = "Request"
    CONTROLLER_MUTATION = "ControllerMutation"


class QuotaEntity(NamedTuple):
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
