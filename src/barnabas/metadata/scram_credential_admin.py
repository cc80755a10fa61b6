"""The SCRAM credentials of users, changed and described (KIP-554).

Called by `api.handlers.scram` on handler threads. Blocks on the store. A user's credentials and quotas are settings of
one znode, so changes of both hold the lock of ClientQuotaStore. `scram_credential_cache` hears of a change by its
notice. Kafka: ZkAdminManager.alterUserScramCredentials, describeUserScramCredentials.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from barnabas.metadata.client_quota_store import ClientQuotaStore, QuotaPath
from barnabas.metadata.scram_credential_cache import credentials_of
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.quota.quota_entity import DEFAULT_NAME, KafkaQuotaEntity, desanitize, sanitize
from barnabas.security.sasl.scram_mechanism import (
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    SCRAM_MECHANISMS,
    ScramFormatter,
    StoredScramCredential,
)
from barnabas.zk.store.errors import StoreUnavailableError

logger = logging.getLogger(__name__)

_BY_CODE: Final[Mapping[int, ScramFormatter]] = {each.code: each for each in SCRAM_MECHANISMS.values()}
_EMPTY_NAME: Final = "Username must not be empty"


class NewPassword(NamedTuple):
    """What a client sends of a password: it has salted the password itself."""

    salt: bytes
    salted_password: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"NewPassword(iterations={self.iterations}, hidden)"


class CredentialChange(NamedTuple):
    """The change of one credential. mechanism_code: as in the requests. password: None deletes the credential."""

    user: str
    mechanism_code: int
    password: NewPassword | None


class CredentialInfo(NamedTuple):
    """What is told of a credential."""

    mechanism_code: int
    iterations: int


class ScramCredentialAdmin:
    """The administration of credentials. Every call may raise ApiError: KAFKA_STORAGE_ERROR."""

    def __init__(self, store: ClientQuotaStore) -> None:
        self._store = store

    # -- changes

    def alter(self, changes: Sequence[CredentialChange]) -> dict[str, ApiError | None]:
        """Change credentials. Returns the outcome by user: an error concerns all changes of its user."""
        by_user: dict[str, list[CredentialChange]] = {}
        for change in changes:
            by_user.setdefault(change.user, []).append(change)
        return {user: self._alter(user, of_user) for user, of_user in by_user.items()}

    def _alter(self, user: str, changes: Sequence[CredentialChange]) -> ApiError | None:
        error = _error_in(changes)
        if error is not None:
            return error
        # Made before the lock is taken: hashing takes time.
        credentials = {_BY_CODE[each.mechanism_code].name: _credential(each) for each in changes}
        path = _path(user)
        try:
            with self._store.lock:
                settings = self._store.settings(path)
                for name, credential in credentials.items():
                    if credential is not None:
                        settings[name] = credential.to_text()
                    elif settings.pop(name, None) is None:
                        return ApiError(
                            ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"
                        )
                self._store.change(path, settings)
        except StoreUnavailableError as unavailable:
            return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(unavailable))
        for name, credential in credentials.items():
            logger.info("%s the %s credential of user %s", "Deleted" if credential is None else "Set", name, user)
        return None

    # -- descriptions

    def describe(self, user: str) -> tuple[CredentialInfo, ...]:
        """Return the credentials of a user. Raises ApiError: RESOURCE_NOT_FOUND when there are none."""
        if not user:
            raise ApiError(ErrorCode.RESOURCE_NOT_FOUND, _EMPTY_NAME)
        try:
            found = self._infos(user)
        except StoreUnavailableError as unavailable:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(unavailable)) from unavailable
        if not found:
            message = f"Attempt to describe a user credential that does not exist: {user}"
            raise ApiError(ErrorCode.RESOURCE_NOT_FOUND, message)
        return found

    def describe_all(self) -> dict[str, tuple[CredentialInfo, ...]]:
        """Return the credentials of all users, sorted by name; users without any are left out.

        Raises ApiError: KAFKA_STORAGE_ERROR, when the store is not available.
        """
        try:
            return {user: found for user in sorted(self._users()) if (found := self._infos(user))}
        except StoreUnavailableError as unavailable:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(unavailable)) from unavailable

    def _users(self) -> Iterator[str]:
        for entity in self._store.entities():
            if entity.user not in (None, DEFAULT_NAME) and entity.client_id is None:
                yield desanitize(entity.user or "")

    def _infos(self, user: str) -> tuple[CredentialInfo, ...]:
        credentials = credentials_of(user, self._store.settings(_path(user)))
        return tuple(
            CredentialInfo(SCRAM_MECHANISMS[name].code, credential.iterations)
            for name, credential in credentials.items()
        )


def _path(user: str) -> QuotaPath:
    return QuotaPath.of(KafkaQuotaEntity(sanitize(user), None))


def _error_in(changes: Sequence[CredentialChange]) -> ApiError | None:
    """Return what is wrong with the changes of one user, in Kafka's order; None: nothing."""
    for change in changes:
        if not change.user:
            return ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, _EMPTY_NAME)
        if change.mechanism_code not in _BY_CODE:
            return ApiError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
        if change.password is not None and not MIN_ITERATIONS <= change.password.iterations <= MAX_ITERATIONS:
            is_few = change.password.iterations < MIN_ITERATIONS
            return ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, f"Too {'few' if is_few else 'many'} iterations")
    if max(Counter(change.mechanism_code for change in changes).values()) > 1:
        message = "A user credential cannot be altered twice in the same request"
        return ApiError(ErrorCode.DUPLICATE_RESOURCE, message)
    return None


def _credential(change: CredentialChange) -> StoredScramCredential | None:
    if change.password is None:
        return None
    salt, salted_password, iterations = change.password
    return StoredScramCredential.of_salted_password(_BY_CODE[change.mechanism_code], salted_password, salt, iterations)
