"""The limits of one quota type that are in force, and the choice of the one for a client.

An immutable snapshot: `ClientQuotaManager` replaces it by one assignment, any thread reads it without a lock.

A limit also decides which clients are measured together. With the limits (user alice, client id app): 1 MB/s, (user
alice): 2 MB/s and (default client id): 0.5 MB/s,

    alice, app     1 MB/s, of her own
    alice, tool    2 MB/s, shared by all of alice's clients but app
    bob, tool      0.5 MB/s, shared by every client called tool whose user has no limit

Kafka: ClientQuotaManager.DefaultQuotaCallback.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from barnabas.quota.quota_entity import DEFAULT_NAME, KafkaQuotaEntity, sanitize

UNLIMITED: Final = float((1 << 63) - 1)
"""The bound of a client without a limit, while others have one: its usage is measured all the same."""


class Share(NamedTuple):
    """The clients that share one measured value, and their limit. Empty names: all users, or all client ids, share it.

    user: sanitized; client_id: as the client sends it. Both name the metrics.
    """

    user: str
    client_id: str
    bound: float


class QuotaLimits:
    """Limits by entity. The most specific one counts, and the clients with the names it has share it:

    1. user and client id, 2. user and default client id, 3. user, 4. default user and client id, 5. default user and
       default client id, 6. default user, 7. client id, 8. default client id.

    A default is the limit of names without one of their own, and the empty name is no name: a client that sends no
    client id has no limit by client id, and a user without a name has none by user.
    """

    __slots__ = ("_limits", "_unlimited_by_client", "_unlimited_by_user")

    def __init__(self, limits: Mapping[KafkaQuotaEntity, float]) -> None:
        self._limits = limits
        # A client without a limit is measured by what limits there are.
        self._unlimited_by_user = bool(limits) and all(entity.user is not None for entity in limits)
        self._unlimited_by_client = not self._unlimited_by_user or all(
            entity.client_id is not None for entity in limits
        )

    def __bool__(self) -> bool:
        return bool(self._limits)

    def of(self, entity: KafkaQuotaEntity) -> float | None:
        """Return the limit set for exactly this entity, or None."""
        return self._limits.get(entity)

    def changed(self, entity: KafkaQuotaEntity, bound: float | None) -> QuotaLimits:
        """Return these limits with another one; None removes it."""
        limits = dict(self._limits)
        if bound is None:
            limits.pop(entity, None)
        else:
            limits[entity] = bound
        return QuotaLimits(limits)

    def share_of(self, user: str, client_id: str) -> Share:
        """Return the share of a client: `user` as authenticated, `client_id` as sent; either may be empty."""
        limits = self._limits
        sanitized_user, sanitized_client = sanitize(user), sanitize(client_id)
        bound: float | None
        if not client_id:
            return self._share_without_client_id(sanitized_user)
        if not user:
            return self._share_without_user(sanitized_client, client_id)
        # The order of the class docstring (Kafka: DefaultQuotaCallback.quotaLimit): at most eight look-ups.
        for of_user in (sanitized_user, DEFAULT_NAME):
            for of_client in (sanitized_client, DEFAULT_NAME):
                bound = limits.get(KafkaQuotaEntity(of_user, of_client))
                if bound is not None:
                    return Share(sanitized_user, client_id, bound)
            bound = limits.get(KafkaQuotaEntity(of_user, None))
            if bound is not None:
                return Share(sanitized_user, "", bound)
        for of_client in (sanitized_client, DEFAULT_NAME):
            bound = limits.get(KafkaQuotaEntity(None, of_client))
            if bound is not None:
                return Share("", client_id, bound)
        return Share(
            sanitized_user if self._unlimited_by_user else "", client_id if self._unlimited_by_client else "", UNLIMITED
        )

    def _share_without_client_id(self, user: str) -> Share:
        """Return the share of a sanitized user, perhaps the empty one, whose client sends no client id."""
        limits = self._limits
        if not user:
            return Share("", "", UNLIMITED)
        for of_user in (user, DEFAULT_NAME):
            bound = limits.get(KafkaQuotaEntity(of_user, None))
            if bound is not None:
                return Share(user, "", bound)
        # A limit for the user's other clients has this measurement made by user.
        by_user = any(KafkaQuotaEntity(of_user, DEFAULT_NAME) in limits for of_user in (user, DEFAULT_NAME))
        return Share(user if by_user or self._unlimited_by_user else "", "", UNLIMITED)

    def _share_without_user(self, sanitized_client: str, client_id: str) -> Share:
        """Return the share of a client whose user has no name. client_id: as sent, and not empty."""
        limits = self._limits
        names = (sanitized_client, DEFAULT_NAME)
        if KafkaQuotaEntity(DEFAULT_NAME, None) in limits and not any(
            KafkaQuotaEntity(DEFAULT_NAME, one) in limits for one in names
        ):
            return Share("", "", UNLIMITED)  # measured by user, and there is none
        for of_client in names:
            bound = limits.get(KafkaQuotaEntity(None, of_client))
            if bound is not None:
                return Share("", client_id, bound)
        return Share("", client_id if self._unlimited_by_client else "", UNLIMITED)
