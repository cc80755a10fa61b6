"""Delegation tokens in the store: a znode for each token, and the notices that tokens changed.

A part of `KafkaZkClient` (its attribute `tokens`), used on any thread; stateless, so no lock. The HMAC of a token is
not in the store.

Kafka: the delegation token calls of kafka.zk.KafkaZkClient.
"""

from __future__ import annotations

from barnabas.security.tokens.delegation_token import TokenInformation
from barnabas.zk.change_notices import ChangeNotices
from barnabas.zk.errors import NodeExistsError, NoNodeError, StoreError
from barnabas.zk.store import Create, Created, Delete, SetData, value_of
from barnabas.zk.token_zk_data import (
    DelegationTokenChangeNotificationZNode,
    DelegationTokenInfoZNode,
    DelegationTokensZNode,
)
from barnabas.zk.znode_access import ZnodeAccess


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
