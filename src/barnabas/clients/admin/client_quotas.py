"""Client quotas, the entities that they apply to, and the admin client's requests for them (KIP-546).

Part of `Admin`. Kafka: ClientQuotaEntity, ClientQuotaFilter, ClientQuotaAlteration.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from barnabas.clients.admin.admin_calls import AdminPart
from barnabas.clients.errors import raise_error
from barnabas.protocol.messages.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)


class _Default:
    """The type of DEFAULT."""

    def __repr__(self) -> str:
        return "DEFAULT"


DEFAULT: Final = _Default()
"""A stand-in for a name: all users or client ids without a quota of their own."""

Name = str | _Default | None

_TYPES: Final = ("user", "client-id", "ip")


class _Match(IntEnum):
    EXACT = 0
    DEFAULT = 1
    ANY = 2


class QuotaEntity(NamedTuple):
    """The entity that a quota applies to: a user, a client id, both together, or an address. None: any value."""

    user: Name = None
    client_id: Name = None
    ip: Name = None

    def __str__(self) -> str:
        """Return the entity in the form of the command line's output."""
        parts = [f"{kind} {'default' if name is DEFAULT else name}" for kind, name in self.parts()]
        return ", ".join(parts)

    def parts(self) -> list[tuple[str, str | _Default]]:
        """Return the kind and the name of each part that is set."""
        return [(kind, name) for kind, name in zip(_TYPES, self, strict=True) if name is not None]


ANY_ENTITY: Final = QuotaEntity()
"""The entity without any part: as a filter, it matches every quota."""


class AdminClientQuotas(AdminPart):
    """The methods of `Admin` about client quotas."""

    def describe_client_quotas(
        self, entity: QuotaEntity = ANY_ENTITY, *, strict: bool = False
    ) -> dict[QuotaEntity, dict[str, float]]:
        """Return quotas by entity: this entity's and, unless `strict`, those of narrower ones. Raises ApiError."""
        components = [
            DescribeClientQuotasRequest.ComponentData(
                kind, _Match.DEFAULT if name is DEFAULT else _Match.EXACT, name if isinstance(name, str) else None
            )
            for kind, name in entity.parts()
        ]
        request = DescribeClientQuotasRequest(components, strict)
        answer = self._calls.ask(request, DescribeClientQuotasResponse)
        raise_error(answer.error_code, answer.error_message, "Quotas are not known")
        found = {}
        for entry in answer.entries or ():
            # In answers, as in requests, a null name stands for the default entity.
            names = {
                part.entity_type: DEFAULT if part.entity_name is None else part.entity_name for part in entry.entity
            }
            found[QuotaEntity(*(names.get(kind) for kind in _TYPES))] = {
                value.key: value.value for value in entry.values
            }
        return found

    def alter_client_quotas(
        self, changes: Mapping[QuotaEntity, Mapping[str, float | None]], *, validate_only: bool = False
    ) -> None:
        """Set quotas by name. None removes a quota. Raises ApiError for the first entity that is rejected."""
        entries = [
            AlterClientQuotasRequest.EntryData(
                [
                    AlterClientQuotasRequest.EntityData(kind, name if isinstance(name, str) else None)
                    for kind, name in entity.parts()
                ],
                # The value of a removed quota is ignored, but its field cannot be null.
                [
                    AlterClientQuotasRequest.OpData(key, 0.0 if value is None else value, value is None)
                    for key, value in quotas.items()
                ],
            )
            for entity, quotas in changes.items()
        ]
        request = AlterClientQuotasRequest(entries, validate_only)
        answer = self._calls.ask_controller(
            request, AlterClientQuotasResponse, lambda answer: (entry.error_code for entry in answer.entries)
        )
        for entry in answer.entries:
            named = ", ".join(f"{part.entity_type} {part.entity_name or 'default'}" for part in entry.entity)
            raise_error(entry.error_code, entry.error_message, f"Quota of {named}")
