"""The check of the origin of requests that brokers send to each other, beside the controller's three.

Asked by the handlers on the request's thread; immutable, so nothing guards it. WriteTxnMarkers ends a transaction for
good, AlterPartition and ControlledShutdown change leaders, and a fetch with a replica id makes the leader believe that
a replica has the records. A broker that took them from any client would lose acknowledged records to the first one that
connects:

1. They come by the brokers' own listener (`inter.broker.listener.name`).
2. An authorizer must allow CLUSTER_ACTION. Where none decides, the sender must be a broker (`controller_origin`).
3. An operator to whom an authorizer allows ALTER on the cluster may send WriteTxnMarkers by any listener: the admin
   clients abort a hanging transaction with it (KIP-664). AddPartitionsToTxn for several transactions is for brokers
   alone.
4. With an authorizer, followers and senders of requests to the controller may come by any listener, as in Kafka.

Beside Kafka's, which has only the authorizer's part of the rules.
"""

from __future__ import annotations

from typing import Any

from barnabas.api.authorize import CLUSTER_NAME, Authorizer, is_allowed, require_cluster_permission
from barnabas.api.brief import NeedsHandlerThread
from barnabas.api.controller_origin import BrokerSenders, needs_known_sender, refuse_origin, require_broker
from barnabas.api.request import Request
from barnabas.security.acl.acl_codes import AclOperation, ResourceType


class BrokerOrigin:
    """Lets requests of brokers pass. listener_name: the brokers' own listener."""

    def __init__(self, authorizer: Authorizer | None, senders: BrokerSenders, *, listener_name: str) -> None:
        self._authorizer = authorizer
        self._senders = senders
        self._listener_name = listener_name

    def require_broker_or_operator(self, request: Request[Any]) -> None:
        """Let pass an operator with ALTER on the cluster, else do as `require` does. Raises ApiError: as there."""
        authorizer = self._authorizer
        if (
            authorizer is None
            or authorizer.allows_for_want_of_lists(request.connection, ResourceType.CLUSTER, CLUSTER_NAME)
            or not is_allowed(
                authorizer, request, AclOperation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME, log_if_denied=False
            )
        ):
            self.require(request)

    def require(self, request: Request[Any]) -> None:
        """Check the permission, the listener, the principal and the address that a request comes with.

        Raises ApiError: CLUSTER_AUTHORIZATION_FAILED for a listener or a client that must not send it.
        """
        require_cluster_permission(self._authorizer, request, AclOperation.CLUSTER_ACTION)
        self._require_listener(request)
        if needs_known_sender(self._authorizer, request):
            require_broker(request, self._senders)

    def require_to_controller(self, request: Request[Any]) -> None:
        """Do as `require`, but leave the listener open where an authorizer decides. Raises ApiError: as there."""
        require_cluster_permission(self._authorizer, request, AclOperation.CLUSTER_ACTION)
        if needs_known_sender(self._authorizer, request):
            self._require_listener(request)
            require_broker(request, self._senders)

    def require_follower(self, request: Request[Any]) -> None:
        """Check the sender of a fetch with a replica id, whose permission its handler asks for.

        Raises ApiError: CLUSTER_AUTHORIZATION_FAILED when no authorizer decides and the client is not a broker.
        Raises NeedsHandlerThread: the check may have to read the store.
        """
        if not request.connection.is_of_broker and needs_known_sender(self._authorizer, request):
            if request.brief:
                raise NeedsHandlerThread
            self._require_listener(request)
            require_broker(request, self._senders)

    def _require_listener(self, request: Request[Any]) -> None:
        name = request.connection.listener_name
        if name != self._listener_name:
            refuse_origin(request, f"listener {name} is not the inter-broker listener")
