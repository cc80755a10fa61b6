"""The descriptions of client quotas: by user, client id or IP address, exactly or all of a kind.

Used by DescribeClientQuotas on request handler threads; blocks on the store and keeps nothing, so no lock. Error texts
are Kafka's. Kafka: kafka.server.ZkAdminManager.describeClientQuotas.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from barnabas.metadata.client_quota_store import ClientQuotaStore, QuotaPath
from barnabas.metadata.client_quotas import (
    CLIENT_ID,
    IP,
    IP_QUOTAS,
    USER,
    USER_CLIENT_QUOTAS,
    desanitized,
    sanitized,
)
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.quota.quota_entity import KafkaQuotaEntity
from barnabas.zk.znodes.config_znodes import ConfigEntityType


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
            raise ApiError(ErrorCode.INVALID_REQUEST, "Unexpected empty filter component entity type")
        if kind not in words:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"Custom entity type '{kind}' not supported")
        if kind in by_type:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Duplicate {words[kind]} filter component entity type")
        if each.match_type not in tuple(MatchType) or (each.match_type == MatchType.EXACT and each.name is None):
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Unexpected match type: {each.match_type}")
        by_type[kind] = each
    if IP in by_type and len(by_type) > 1:
        text = "Invalid entity filter component combination, IP filter component should not be used with user or "
        raise ApiError(ErrorCode.INVALID_REQUEST, text + "clientId filter component.")
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
