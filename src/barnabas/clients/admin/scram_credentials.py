"""The SCRAM credentials of users (KIP-554): which mechanisms a user may log in with, and new passwords.

Part of `Admin`. A password is salted here and never travels; a credential cannot be read back.
Kafka: UserScramCredentialsDescription, ScramCredentialInfo, UserScramCredentialUpsertion.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection
from enum import IntEnum
from typing import NamedTuple

from barnabas.clients.admin.admin_calls import AdminPart
from barnabas.clients.errors import raise_error
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.quotas import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from barnabas.security.sasl.scram_mechanism import SALT_BYTES, SCRAM_MECHANISMS


class ScramMechanism(IntEnum):
    """The mechanisms of SCRAM. UNKNOWN stands for one that this client does not know."""

    UNKNOWN = 0
    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2


class ScramCredential(NamedTuple):
    """One credential of a user."""

    mechanism: ScramMechanism
    iterations: int


class AdminScramCredentials(AdminPart):
    """The methods of `Admin` about SCRAM credentials."""

    def describe_user_scram_credentials(
        self, users: Collection[str] | None = None
    ) -> dict[str, tuple[ScramCredential, ...]]:
        """Return the SCRAM credentials of these users, or of all. A user without any is left out. Raises ApiError."""
        names = None if users is None else [DescribeUserScramCredentialsRequest.UserName(name) for name in users]
        answer = self._calls.ask(DescribeUserScramCredentialsRequest(names), DescribeUserScramCredentialsResponse)
        raise_error(answer.error_code, answer.error_message, "Credentials are not known")
        found = {}
        for result in answer.results:
            # The answer to a request that names a user without credentials, not a failure of the request.
            if result.error_code == ErrorCode.RESOURCE_NOT_FOUND:
                continue
            raise_error(result.error_code, result.error_message, f"User: {result.user}")
            found[result.user] = tuple(
                ScramCredential(_mechanism(each.mechanism), each.iterations) for each in result.credential_infos
            )
        return found

    def alter_user_scram_credentials(self, alterations: Collection[ScramAlteration]) -> None:
        """Set and delete SCRAM credentials. Raises ApiError for the first user that is rejected."""
        request = AlterUserScramCredentialsRequest(
            [
                AlterUserScramCredentialsRequest.ScramCredentialDeletion(each.user, each.mechanism)
                for each in alterations
                if each.password is None
            ],
            [_upsertion(each, each.password) for each in alterations if each.password is not None],
        )
        answer = self._calls.ask_controller(
            request, AlterUserScramCredentialsResponse, lambda answer: (result.error_code for result in answer.results)
        )
        for result in answer.results:
            raise_error(result.error_code, result.error_message, f"User: {result.user}")


class ScramAlteration(NamedTuple):
    """The change of one credential. password: None deletes the credential."""

    user: str
    mechanism: ScramMechanism
    password: str | None
    iterations: int = 4096

    def __repr__(self) -> str:
        return f"ScramAlteration(user={self.user!r}, mechanism={self.mechanism!r}, hidden)"


def _upsertion(alteration: ScramAlteration, password: str) -> AlterUserScramCredentialsRequest.ScramCredentialUpsertion:
    mechanism = next(each for each in SCRAM_MECHANISMS.values() if each.code == alteration.mechanism)
    salt = secrets.token_bytes(SALT_BYTES)
    salted_password = mechanism.salted_password(password, salt, alteration.iterations)
    return AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
        alteration.user, alteration.mechanism, alteration.iterations, salt, salted_password
    )


def _mechanism(code: int) -> ScramMechanism:
    return ScramMechanism(code) if code in ScramMechanism.__members__.values() else ScramMechanism.UNKNOWN
