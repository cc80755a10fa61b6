"""The delegation tokens that this broker knows, with the SCRAM credentials for logins by them.

Filled by `metadata.delegation_tokens`, on the thread of a request or of the scheduler; read by Processors when a client
logs in by a token. `_lock` guards all tables.

Kafka: DelegationTokenCache.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from barnabas.security.sasl.scram_credential import ScramCredential
from barnabas.security.tokens.delegation_token import DelegationToken, TokenInformation

MakeCredentials = Callable[[str], Mapping[str, ScramCredential]]
"""Returns the credentials of a password, by mechanism. Takes milliseconds."""


class TokenCache:
    """The tokens by id and by HMAC. make_credentials: called once a token, without the lock."""

    def __init__(self, make_credentials: MakeCredentials) -> None:
        self._make_credentials = make_credentials
        self._lock = threading.Lock()
        self._tokens: dict[str, DelegationToken] = {}
        self._ids_by_hmac: dict[bytes, str] = {}
        self._credentials: dict[str, Mapping[str, ScramCredential]] = {}

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
        """Forget a token: nobody logs in by it any more. An unknown id is no error."""
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

    def credential(self, token_id: str, mechanism: str) -> ScramCredential | None:
        """Return the credential for a login by a token with a SCRAM mechanism, or None."""
        with self._lock:
            credentials = self._credentials.get(token_id)
        return None if credentials is None else credentials.get(mechanism)
