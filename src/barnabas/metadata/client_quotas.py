"""Changes of client quotas: Kafka's checks, then the store, which notifies every broker.

Used by AlterClientQuotas on request handler threads; blocks on the store. `_lock` serialises changes, since a change
reads the store before it writes. The answer does not wait until the brokers have read the change
(`ClientQuotaListener`), as in Kafka's ZooKeeper mode.

Error texts are Kafka's. They are ours where Kafka answers UNKNOWN_SERVER_ERROR (a negative rate of connections) or does
not check at all (a value that is not a number). Kafka: kafka.server.ZkAdminManager.alterClientQuotas.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from barnabas.metadata.client_quota_store import ClientQuotaStore, QuotaPath
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.quota.quota_entity import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    DEFAULT_NAME,
    IP_CONNECTION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    KafkaQuotaEntity,
    desanitize,
    sanitize,
)
from barnabas.zk.store.errors import StoreUnavailableError
from barnabas.zk.znodes.config_znodes import ConfigEntityType

logger = logging.getLogger(__name__)

USER, CLIENT_ID, IP = "user", "client-id", "ip"
"""The types of entities."""

EPSILON: Final = 1e-6
"""How far the value of an integer quota may be from an integer: clients send all values as doubles."""

_LONG, _INT, _DOUBLE = "LONG", "INT", "DOUBLE"
USER_CLIENT_QUOTAS: Final[Mapping[str, str]] = {
    PRODUCER_BYTE_RATE: _LONG,
    CONSUMER_BYTE_RATE: _LONG,
    REQUEST_PERCENTAGE: _DOUBLE,
    CONTROLLER_MUTATION_RATE: _DOUBLE,
}
IP_QUOTAS: Final[Mapping[str, str]] = {IP_CONNECTION_RATE: _INT}
"""The names of quotas, and the types of their values."""

LARGEST: Final = {_LONG: (1 << 63) - 1, _INT: (1 << 31) - 1}


class QuotaChange(NamedTuple):
    """The change of one quota of an entity. value: None removes the quota."""

    key: str
    value: float | None


class ClientQuotaAdmin:
    """The changes of quotas. is_address: returns whether a name is an IP address or a resolvable host name."""

    def __init__(self, store: ClientQuotaStore, is_address: Callable[[str], bool]) -> None:
        self._store = store
        self._is_address = is_address

    def alter(self, entity: Mapping[str, str | None], changes: Sequence[QuotaChange], *, validate_only: bool) -> None:
        """Change quotas of an entity, given as types and names (None: the default). Other quotas of it stay.

        Raises ApiError: INVALID_REQUEST, KAFKA_STORAGE_ERROR.
        """
        path, types = self._checked_path(entity)
        with self._store.lock:
            try:
                settings = self._store.settings(path)
                for change in changes:
                    _apply(change, settings, types)
                if not validate_only:
                    self._store.change(path, settings)
            except StoreUnavailableError as error:
                raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error

    def _checked_path(self, entity: Mapping[str, str | None]) -> tuple[QuotaPath, Mapping[str, str]]:
        """Return the place of an entity's quotas, and the quotas it may have. Raises ApiError: INVALID_REQUEST."""
        if not entity:
            raise _invalid("Invalid empty client quota entity")
        for entity_type, name in entity.items():
            if entity_type not in (USER, CLIENT_ID, IP):
                raise _invalid(f"Unhandled client quota entity type: {entity_type}")
            if name is not None and not name:
                raise _invalid(f"Empty {entity_type} not supported")
        if IP not in entity:
            names = {entity_type: sanitized(name) for entity_type, name in entity.items()}
            return QuotaPath.of(KafkaQuotaEntity(names.get(USER), names.get(CLIENT_ID))), USER_CLIENT_QUOTAS
        if len(entity) > 1:
            raise _invalid("Invalid quota entity combination, IP entity should not be used with user/client ID entity.")
        address = entity[IP]
        if address is not None and not self._is_address(address):
            raise _invalid(f"{address} is not a valid IP or resolvable host.")
        return QuotaPath(ConfigEntityType.IP, sanitized(address)), IP_QUOTAS


def sanitized(name: str | None) -> str:
    """Return a name as it is in a path; None is the default."""
    return DEFAULT_NAME if name is None else sanitize(name)


def desanitized(name: str) -> str | None:
    """Return the name of one in a path; None is the default."""
    return None if name == DEFAULT_NAME else desanitize(name)


def _apply(change: QuotaChange, settings: dict[str, str], types: Mapping[str, str]) -> None:
    """Apply one change to settings. Raises ApiError: INVALID_REQUEST for an unknown quota or a bad value."""
    key, value = change
    if value is None:
        settings.pop(key, None)
        return
    value_type = types.get(key)
    if value_type is None:
        raise _invalid(f"Invalid configuration key {key}")
    if value_type == _DOUBLE:
        if not math.isfinite(value):
            raise _invalid(f"Configuration {key} must be a {value_type} value")
        settings[key] = repr(float(value))
        return
    # NaN and infinity fail the comparison, so that `int` cannot raise.
    whole = int(value + EPSILON) if abs(value) <= LARGEST[value_type] else None
    if whole is None or abs(whole - value) > EPSILON:
        raise _invalid(f"Configuration {key} must be a {value_type} value")
    if whole < 0 and value_type == _INT:
        raise _invalid(f"Invalid value {whole} for configuration {key}: Value must be at least 0")
    settings[key] = str(min(whole, LARGEST[value_type]))


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)
