"""Delegation tokens (KIP-48): what a token is, and the HMAC that is its password.

Used by the token cache, the manager of tokens and the handlers, on any thread; immutable values and pure functions.

A token lets a program log in as its owner without the owner's own credentials: its id is the user name of a SCRAM
login, its HMAC in base64 is the password. The HMAC is computed from the id and the cluster's secret, so that every
broker knows it and the store does not.

Kafka: TokenInformation, DelegationToken, DelegationTokenManager.createHmac.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class TokenInformation:
    """A token as the store keeps it. Principals are text, `User:alice`; time stamps are milliseconds.

    owner: the principal of those who log in by the token. requester: the client that asked for it (KIP-373).
    renewers: may renew and expire the token, as its owner may. max_timestamp_ms: no renewal goes beyond it.
    """

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_timestamp_ms: int
    max_timestamp_ms: int
    expiry_timestamp_ms: int

    def may_be_renewed_by(self, principal: str) -> bool:
        """Return whether a principal may renew and expire the token. Not its requester, as in Kafka."""
        return principal == self.owner or principal in self.renewers

    def belongs_to(self, principals: AbstractSet[str]) -> bool:
        """Return whether one of the principals has the token: as owner, requester or renewer.

        Takes as long as the token has principals, however many are asked for.
        """
        return not principals.isdisjoint((self.owner, self.requester, *self.renewers))

    def is_expired(self, now_ms: int) -> bool:
        """Return whether nobody can log in by the token any more."""
        return self.max_timestamp_ms < now_ms or self.expiry_timestamp_ms < now_ms


class DelegationToken(NamedTuple):
    """A token with its HMAC, which is a secret."""

    information: TokenInformation
    hmac: bytes

    @property
    def password(self) -> str:
        """The password of a SCRAM login by the token."""
        return base64.b64encode(self.hmac).decode()

    def __repr__(self) -> str:
        return f"DelegationToken({self.information!r}, hmac=[hidden])"


def token_hmac(token_id: str, secret_key: str) -> bytes:
    """Return the HMAC of a token: HMAC-SHA-512 of its id."""
    return hmac.digest(secret_key.encode(), token_id.encode(), "sha512")
