"""The SCRAM credentials of all users, in memory: what logins are checked against.

Made by `broker`. The main thread calls `start`; ConfigChangeListener then passes changed users on a scheduler's thread,
and network threads look credentials up. They read one immutable dictionary a mechanism, which `_lock` guards only
against two changes at once. Kafka: CredentialProvider, UserConfigHandler.

The credentials are settings of users in the store, in Kafka's form, beside their quotas:
`/config/users/<user>` has `SCRAM-SHA-256=salt=...,stored_key=...,server_key=...,iterations=4096`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from barnabas.metadata.stored_configs import ConfigChangeListener
from barnabas.quota.quota_entity import DEFAULT_NAME, desanitize
from barnabas.zk.kafka_zk_client import KafkaZkClient
from barnabas.zk.znodes.config_znodes import ConfigEntityType

if TYPE_CHECKING:
    from barnabas.security.sasl.scram_mechanism import ScramFormatter, StoredScramCredential, TokenCredential

    TokenLookup = Callable[[ScramFormatter, str], TokenCredential | None]
    """Returns the credential of a delegation token that is valid now."""

logger = logging.getLogger(__name__)

_SCRAM: Final = "SCRAM-"
"""The beginning of the names of the mechanisms."""


class ScramCredentialCache:
    """The credentials (security.sasl.scram_mechanism.ScramCredentials)."""

    def __init__(self, zk_client: KafkaZkClient, tokens: TokenLookup | None = None) -> None:
        """tokens: of delegation tokens; None: clients cannot log in by one."""
        self._configs = zk_client.configs
        self._tokens = tokens
        self._by_user: dict[str, Mapping[str, StoredScramCredential]] = {}
        self._lock = threading.Lock()

    def start(self, changes: ConfigChangeListener) -> None:
        """Follow changes from now on, and read the credentials in the store."""
        # Registered before the reading: a change meanwhile waits for the lock, and is applied after what was read.
        changes.register(ConfigEntityType.USER, lambda name, _: self._changed(name))
        with self._lock:
            for name in self._configs.entities(ConfigEntityType.USER):
                self._apply(name, self._configs.entity(ConfigEntityType.USER, name))

    # -- as ScramCredentials

    def of_user(self, mechanism: ScramFormatter, user: str) -> StoredScramCredential | None:
        """Return a user's credential; None if there is none."""
        credentials = self._by_user.get(user)
        return None if credentials is None else credentials.get(mechanism.name)

    def of_token(self, mechanism: ScramFormatter, token_id: str) -> TokenCredential | None:
        """Return the credential of a delegation token that is valid now; None if there is none."""
        return None if self._tokens is None else self._tokens(mechanism, token_id)

    # -- changes

    def _changed(self, name: str) -> None:
        with self._lock:
            # Read again under the lock: of two changes in a row, the later one must win.
            self._apply(name, self._configs.entity(ConfigEntityType.USER, name))

    def _apply(self, name: str, settings: Mapping[str, str]) -> None:
        if "/" in name or name == DEFAULT_NAME:
            return  # the quotas of a user's clients, and of all other users
        user = desanitize(name)
        credentials = credentials_of(user, settings)
        by_user = {**self._by_user, user: credentials}
        if not credentials:
            del by_user[user]
        self._by_user = by_user


def credentials_of(user: str, settings: Mapping[str, str]) -> dict[str, StoredScramCredential]:
    """Return the credentials among a user's settings, by mechanism. One that cannot be read is logged and left out."""
    if not any(name.startswith(_SCRAM) for name in settings):
        return {}
    # Not before a user has a credential: many brokers have none.
    from barnabas.security.sasl.scram_mechanism import SCRAM_MECHANISMS, StoredScramCredential  # noqa: PLC0415

    credentials = {}
    for mechanism in SCRAM_MECHANISMS:
        text = settings.get(mechanism)
        if text is None:
            continue
        try:
            credentials[mechanism] = StoredScramCredential.parse(text)
        except ValueError as error:
            logger.warning("Ignoring the %s credential of user %s in the store: %s", mechanism, user, error)
    return credentials
