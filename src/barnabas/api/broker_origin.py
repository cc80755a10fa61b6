"""The check of the origin of WriteTxnMarkers, which the coordinator of a transaction sends to partition leaders.

Asked by the handler on the request's thread; immutable, so nothing guards it. A marker ends a transaction for good, so
a broker that took it from any client would let the first one that connects commit what its producer aborts:

1. It comes by the brokers' own listener (`inter.broker.listener.name`).
2. An authorizer must allow CLUSTER_ACTION. Without an authorizer, the sender must be on this machine or on that of a
   registered broker (decisions/0061).
3. An operator to whom an authorizer allows ALTER on the cluster may send WriteTxnMarkers by any listener: the admin
   clients abort a hanging transaction with it (KIP-664). AddPartitionsToTxn for several transactions is for brokers
   alone.

Beside Kafka's, which has only the authorizer's part of the rules.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from barnabas.api.authorize import CLUSTER_NAME, Authorizer, is_allowed, require_cluster_permission
from barnabas.api.controller_origin import refuse_origin, require_broker_address
from barnabas.api.request import Request
from barnabas.security.acl.acl_codes import AclOperation, ResourceType


class BrokerOrigin:
    """Lets requests of brokers pass.

    listener_name: the brokers' own listener. is_broker_address: whether a broker has registered with this address; may
    block.
    """

    def __init__(
        self, authorizer: Authorizer | None, is_broker_address: Callable[[str], bool], *, listener_name: str
    ) -> None:
        self._authorizer = authorizer
        self._is_broker_address = is_broker_address
        self._listener_name = listener_name

    def require_broker_or_operator(self, request: Request[Any]) -> None:
        """Let pass an operator with ALTER on the cluster, else do as `require` does. Raises ApiError: as there."""
        authorizer = self._authorizer
        if authorizer is None or not is_allowed(
            authorizer, request, AclOperation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME, log_if_denied=False
        ):
            self.require(request)

    def require(self, request: Request[Any]) -> None:
        """Check the permission, the listener and the address that a request comes with.

        Raises ApiError: CLUSTER_AUTHORIZATION_FAILED for a listener, an address or a client that must not send it.
        """
        authorizer = self._authorizer
        require_cluster_permission(authorizer, request, AclOperation.CLUSTER_ACTION)
        connection = request.connection
        if connection.listener_name != self._listener_name:
            refuse_origin(request, f"listener {connection.listener_name} is not the inter-broker listener")
        if authorizer is None:
            require_broker_address(request, self._is_broker_address)
