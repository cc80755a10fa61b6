"""Delegation tokens (KIP-48): what a token is, the HMAC that is its password, and the tokens that this broker knows.

`metadata.delegation_token_manager` fills the TokenCache, on the thread of a request or of the scheduler; Processors
read it when a client logs in by a token. `_lock` guards all its tables. Tokens are immutable values.

A token lets a program log in as its owner without the owner's own credentials: its id is the user name of a SCRAM
login, its HMAC in base64 is the password. The HMAC is computed from the id and the cluster's secret, so that every
broker knows it and the store does not.

Kafka: TokenInformation, DelegationToken, DelegationTokenCache, DelegationTokenManager.createHmac.
"""

from __future__ import annotations

import base64
import hmac
import threading
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from barnabas.security.sasl.scram_mechanism import SCRAM_MECHANISMS, StoredScramCredential


class TokenInformation(NamedTuple):
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
        """Return whether the token is refused at logins."""
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


MakeCredentials = Callable[[str], Mapping[str, StoredScramCredential]]
"""Returns the credentials of a password, by mechanism. Takes milliseconds."""


class TokenCache:
    """The known tokens by id and by HMAC, with their SCRAM credentials.

    make_credentials: called once a token, without the lock.
    """

    def __init__(self, make_credentials: MakeCredentials) -> None:
        self._make_credentials = make_credentials
        self._lock = threading.Lock()
        self._tokens: dict[str, DelegationToken] = {}
        self._ids_by_hmac: dict[bytes, str] = {}
        self._credentials: dict[str, Mapping[str, StoredScramCredential]] = {}

    def put(self, token: DelegationToken) -> None:
        """Add a token, or replace what is known of it."""
        token_id = token.information.token_id
        with self._lock:
            known = self._tokens.get(token_id)
            credentials = self._credentials.get(token_id)
        # A renewal changes neither the id nor the HMAC, and so not the credentials.
        if credentials is None or known is None or known.hmac != token.hmac:
            credentials = self._make_credentials(token.password)
        with self._lock:
            self._forget(token_id)
            self._tokens[token_id] = token
            self._ids_by_hmac[token.hmac] = token_id
            self._credentials[token_id] = credentials

    def remove(self, token_id: str) -> None:
        """Forget a token, which then is refused at logins. An unknown id is no error."""
        with self._lock:
            self._forget(token_id)

    def _forget(self, token_id: str) -> None:
        token = self._tokens.pop(token_id, None)
        if token is not None:
            self._ids_by_hmac.pop(token.hmac, None)
        self._credentials.pop(token_id, None)

    def information(self, token_id: str) -> TokenInformation | None:
        """Return what is known of a token, or None."""
        with self._lock:
            token = self._tokens.get(token_id)
        return None if token is None else token.information

    def by_hmac(self, hmac: bytes) -> DelegationToken | None:
        """Return the token with this HMAC, or None."""
        with self._lock:
            token_id = self._ids_by_hmac.get(hmac)
            return None if token_id is None else self._tokens.get(token_id)

    def all(self) -> list[DelegationToken]:
        """Return all tokens."""
        with self._lock:
            return list(self._tokens.values())

    def credential(self, token_id: str, mechanism: str) -> StoredScramCredential | None:
        """Return the credential for a login by a token with a SCRAM mechanism, or None."""
        with self._lock:
            credentials = self._credentials.get(token_id)
        return None if credentials is None else credentials.get(mechanism)


def credentials_of_token(password: str) -> dict[str, StoredScramCredential]:
    """Return the credentials of a token's password, with the fewest iterations: the password is long and random."""
    return {name: StoredScramCredential.of_password(each, password) for name, each in SCRAM_MECHANISMS.items()}
