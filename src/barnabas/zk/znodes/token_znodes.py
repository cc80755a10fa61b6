"""Delegation tokens in the store, and the notices that they changed: the znodes, and Kafka's calls on them.

TokenZnodes is a part of `KafkaZkClient` (its attribute `tokens`), used on any thread; stateless, so no lock. The HMAC
of a token is not in the store. Version 3 of the JSON added the requester (KIP-373); principals are sanitized.

Kafka: the token calls of kafka.zk.KafkaZkClient; ZkData (DelegationTokensZNode and its kin), DelegationTokenManagerZk.
"""

from __future__ import annotations

from typing import Any, Final

from barnabas.quota.quota_entity import desanitize, sanitize
from barnabas.security.delegation_token import TokenInformation
from barnabas.security.principal import Principal
from barnabas.zk.store.errors import NodeExistsError, NoNodeError, StoreError
from barnabas.zk.store.store import Create, Created, Delete, SetData, value_of
from barnabas.zk.znodes.znode_access import ChangeNotices, ZnodeAccess
from barnabas.zk.znodes.znode_json import ZnodeFormatError, decode_json, encode_json

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


class TokenZnodes:
    """The tokens, by Kafka's calls. Every method may raise StoreError."""

    def __init__(self, access: ZnodeAccess) -> None:
        self._access = access
        self.notices = ChangeNotices(
            access, DelegationTokenChangeNotificationZNode.path, DelegationTokenChangeNotificationZNode.prefix
        )

    def make_sure_paths_exist(self) -> None:
        """Create the parents of tokens and notices. Kafka: createDelegationTokenPaths."""
        self._access.make_sure_exist([DelegationTokensZNode.path, DelegationTokenChangeNotificationZNode.path])

    def ids(self) -> list[str]:
        """Return the ids of all tokens."""
        return self._access.children(DelegationTokensZNode.path)

    def read(self, token_id: str) -> TokenInformation | None:
        """Return a token, or None if there is none with this id. Raises ZnodeFormatError: it cannot be read."""
        node = self._access.get(DelegationTokenInfoZNode.path(token_id))
        return None if node is None or not node.data else DelegationTokenInfoZNode.decode(node.data)

    def write(self, token: TokenInformation) -> None:
        """Create or replace a token and notify every broker, in one batch."""
        path, data = DelegationTokenInfoZNode.path(token.token_id), DelegationTokenInfoZNode.encode(token)
        # Exactly one of the first two succeeds: the creation fails when the token exists. The notice comes last.
        self._change([Create(path, data), SetData(path, data)], token.token_id)

    def remove(self, token_id: str) -> None:
        """Remove a token and notify every broker, in one batch. An unknown id is no error."""
        self._change([Delete(DelegationTokenInfoZNode.path(token_id))], token_id)

    def _change(self, writes: list[Create | SetData | Delete], token_id: str) -> None:
        *outcomes, noticed = self._access.store.batch([*writes, self.notices.creation(token_id.encode())])
        for outcome in outcomes:
            if isinstance(outcome, StoreError) and not isinstance(outcome, (NodeExistsError, NoNodeError)):
                raise outcome
        value_of(noticed, Created)
