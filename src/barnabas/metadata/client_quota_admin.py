"""Changes and descriptions of client quotas: Kafka's checks, then the store, which notifies every broker of a change.

Used by AlterClientQuotas and DescribeClientQuotas on request handler threads; blocks on the store. Its `lock`
serialises changes, since a change reads the store before it writes. The answer does not wait until the brokers have
read the change (`ClientQuotaListener`), as in Kafka's ZooKeeper mode.

Error texts are Kafka's. They are ours where Kafka answers UNKNOWN_SERVER_ERROR (a negative rate of connections) or does
not check at all (a value that is not a number). Kafka: ZkAdminManager.alterClientQuotas, describeClientQuotas.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
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


class MatchType(IntEnum):
    """The choice of entities of a type (KIP-546)."""

    EXACT = 0
    DEFAULT = 1
    SPECIFIED = 2
    """All entities, the default included."""


class QuotaFilter(NamedTuple):
    """A filter for one type of entity. name: only with EXACT."""

    entity_type: str
    match_type: int
    name: str | None = None


class DescribedQuotas(NamedTuple):
    """An entity (types and names, None for the default), and its quotas."""

    entity: Mapping[str, str | None]
    quotas: Mapping[str, float]


class ClientQuotaDescriptions:
    """The descriptions of quotas, read from the store."""

    def __init__(self, store: ClientQuotaStore) -> None:
        self._store = store

    def describe(self, filters: Sequence[QuotaFilter], *, strict: bool) -> list[DescribedQuotas]:
        """Return the quotas of entities that match every filter. strict: and that have no type without a filter.

        Raises ApiError: INVALID_REQUEST, UNSUPPORTED_VERSION.
        """
        by_type = _by_type(filters)
        found: list[DescribedQuotas] = []
        # An entity is an address (KIP-612) or a user and client id, never both, so that the two are read apart.
        if IP not in by_type:
            found += self._users_and_clients(by_type.get(USER), by_type.get(CLIENT_ID), strict=strict)
        if USER not in by_type and CLIENT_ID not in by_type and (IP in by_type or not strict):
            found += self._addresses(by_type.get(IP))
        return found

    def _users_and_clients(
        self, user: QuotaFilter | None, client_id: QuotaFilter | None, *, strict: bool
    ) -> Iterator[DescribedQuotas]:
        for entity in self._entities(user, client_id):
            if not (
                _matches(user, entity.user, strict=strict) and _matches(client_id, entity.client_id, strict=strict)
            ):
                continue
            quotas = _quotas(self._store.settings(QuotaPath.of(entity)), USER_CLIENT_QUOTAS)
            if quotas:
                names = ((USER, entity.user), (CLIENT_ID, entity.client_id))
                yield DescribedQuotas({kind: desanitized(name) for kind, name in names if name is not None}, quotas)

    def _entities(self, user: QuotaFilter | None, client_id: QuotaFilter | None) -> Iterable[KafkaQuotaEntity]:
        """Return the entities that may match. If the filters name one, the others are not read."""
        wanted_user, wanted_client = _wanted(user), _wanted(client_id)
        if wanted_user is not None and wanted_client is not None:
            return (KafkaQuotaEntity(wanted_user, wanted_client),)
        return self._store.entities()

    def _addresses(self, address: QuotaFilter | None) -> Iterator[DescribedQuotas]:
        wanted = _wanted(address)
        for name in self._store.addresses() if wanted is None else (wanted,):
            quotas = _quotas(self._store.settings(QuotaPath(ConfigEntityType.IP, name)), IP_QUOTAS)
            if quotas:
                yield DescribedQuotas({IP: desanitized(name)}, quotas)


def _by_type(filters: Sequence[QuotaFilter]) -> dict[str, QuotaFilter]:
    """Return the filters by entity type.

    Raises ApiError: INVALID_REQUEST for two filters of a type or an empty one, UNSUPPORTED_VERSION for an unknown type.
    """
    by_type: dict[str, QuotaFilter] = {}
    words = {USER: "user", CLIENT_ID: "client", IP: "ip"}
    for each in filters:
        kind = each.entity_type
        if not kind:
            raise _invalid("Unexpected empty filter component entity type")
        if kind not in words:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"Custom entity type '{kind}' not supported")
        if kind in by_type:
            raise _invalid(f"Duplicate {words[kind]} filter component entity type")
        if each.match_type not in tuple(MatchType) or (each.match_type == MatchType.EXACT and each.name is None):
            raise _invalid(f"Unexpected match type: {each.match_type}")
        by_type[kind] = each
    if IP in by_type and len(by_type) > 1:
        text = "Invalid entity filter component combination, IP filter component should not be used with user or "
        raise _invalid(text + "clientId filter component.")
    return by_type


def _wanted(component: QuotaFilter | None) -> str | None:
    """Return the one name, sanitized, that a filter asks for, or None."""
    if component is None or component.match_type == MatchType.SPECIFIED:
        return None
    return sanitized(component.name if component.match_type == MatchType.EXACT else None)


def _matches(component: QuotaFilter | None, name: str | None, *, strict: bool) -> bool:
    """Return whether a filter matches a name (sanitized). name None: the entity has no such type."""
    if component is None:
        # KIP-546: a strict filter leaves out entities with a type that it does not name.
        return name is None or not strict
    wanted = _wanted(component)
    return name is not None if wanted is None else name == wanted


def _quotas(settings: Mapping[str, str], names: Mapping[str, str]) -> dict[str, float]:
    return {name: float(settings[name]) for name in names if name in settings}
