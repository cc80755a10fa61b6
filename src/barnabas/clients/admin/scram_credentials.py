"""The SCRAM credentials of users (KIP-554): which mechanisms a user may log in with, never the secrets.

Called by `Admin`. Kafka: UserScramCredentialsDescription, ScramCredentialInfo.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import IntEnum
from typing import NamedTuple

from barnabas.clients.admin.admin_calls import AdminCalls, raise_error
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.quotas import DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse


class ScramMechanism(IntEnum):
    """The mechanisms of SCRAM. UNKNOWN stands for one that this client does not know."""

    UNKNOWN = 0
    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2


class ScramCredential(NamedTuple):
    """One credential of a user."""

    mechanism: ScramMechanism
    iterations: int


def describe_user_scram_credentials(
    calls: AdminCalls, users: Collection[str] | None
) -> dict[str, tuple[ScramCredential, ...]]:
    """Return the credentials of these users, or of all. Raises ApiError.

    A user without credentials is left out.
    """
    names = None if users is None else [DescribeUserScramCredentialsRequest.UserName(name) for name in users]
    answer = calls.ask(DescribeUserScramCredentialsRequest(names), DescribeUserScramCredentialsResponse)
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


def _mechanism(code: int) -> ScramMechanism:
    return ScramMechanism(code) if code in ScramMechanism.__members__.values() else ScramMechanism.UNKNOWN
