"""The znodes of delegation tokens, and Kafka's JSON in them.

Used by `token_znodes` on any thread; stateless, so no lock. Version 3 added the requester (KIP-373); principals are
sanitized.

Kafka: ZkData (DelegationTokensZNode and its kin), DelegationTokenManagerZk.
"""

from __future__ import annotations

from typing import Any, Final

from barnabas.quota.sanitizer import desanitize, sanitize
from barnabas.security.principal import Principal
from barnabas.security.tokens.delegation_token import TokenInformation
from barnabas.zk.znode_json import ZnodeFormatError, decode_json, encode_json

_VERSION: Final = 3
_REQUESTER_SINCE: Final = 3


class DelegationTokenChangeNotificationZNode:
    """The parent of notices that a token was created, changed or removed. The data of a notice is the token's id."""

    path = "/delegation_token/token_changes"
    prefix = "token_change_"


class DelegationTokensZNode:
    """The parent of all tokens."""

    path = "/delegation_token/tokens"


class DelegationTokenInfoZNode:
    """A token, without its HMAC."""

    @staticmethod
    def path(token_id: str) -> str:
        """Return the path of a token."""
        return f"{DelegationTokensZNode.path}/{token_id}"

    @staticmethod
    def encode(token: TokenInformation) -> bytes:
        """Return the JSON of a token."""
        return encode_json(
            {
                "version": _VERSION,
                "owner": sanitize(token.owner),
                "tokenRequester": sanitize(token.requester),
                "renewers": [sanitize(renewer) for renewer in token.renewers],
                "issueTimestamp": token.issue_timestamp_ms,
                "maxTimestamp": token.max_timestamp_ms,
                "expiryTimestamp": token.expiry_timestamp_ms,
                "tokenId": token.token_id,
            }
        )

    @staticmethod
    def decode(data: bytes) -> TokenInformation:
        """Return the token of a znode. Raises ZnodeFormatError: no token, or one of a version from the future."""
        value = decode_json(data, "a delegation token")
        version = value.get("version")
        if not isinstance(version, int) or not 0 < version <= _VERSION:
            raise ZnodeFormatError(f"Unsupported version {version!r} of a delegation token; known are 1 to {_VERSION}")
        try:
            owner = _principal(value["owner"])
            return TokenInformation(
                token_id=str(value["tokenId"]),
                owner=owner,
                requester=_principal(value["tokenRequester"]) if version >= _REQUESTER_SINCE else owner,
                renewers=tuple(_principal(renewer) for renewer in value["renewers"]),
                issue_timestamp_ms=int(value["issueTimestamp"]),
                max_timestamp_ms=int(value["maxTimestamp"]),
                expiry_timestamp_ms=int(value["expiryTimestamp"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ZnodeFormatError(f"Failed to parse a delegation token: {data[:200]!r}") from error


def _principal(sanitized: Any) -> str:
    return str(Principal.parse(desanitize(sanitized)))
