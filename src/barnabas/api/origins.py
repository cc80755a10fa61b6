"""The check of the origin of requests that only brokers and the controller send.

Asked by the handlers on the request's thread; the checks are immutable, so nothing guards them. A broker that took
these requests from any client would lose acknowledged records to the first one that can connect. LeaderAndIsr,
StopReplica and UpdateMetadata, the controller's, open, close and delete logs; WriteTxnMarkers ends a transaction for
good; AlterPartition and ControlledShutdown change leaders; a fetch with a replica id makes the leader believe that a
replica has the records.

1. A request comes by the brokers' own listener (`inter.broker.listener.name`), one of the controller's three by the
   control plane's and no other, where there is one (`control.plane.listener.name`).
2. An authorizer must allow CLUSTER_ACTION. Without an authorizer, or if it allows this only because no list is about
   the cluster (`allow.everyone.if.no.acl.found`), the sender must be a broker: its principal is the one that this
   broker itself has at the listener, or one of `super.users`. Where that principal is User:ANONYMOUS, the sender must
   also be on this machine (its address is a loopback address, or the address it connected to), or on that of a
   registered broker (decisions/0061, 0090).
3. An operator to whom an authorizer allows ALTER on the cluster may send WriteTxnMarkers by any listener: the admin
   clients abort a hanging transaction with it (KIP-664). AddPartitionsToTxn for several transactions is for brokers
   alone.
4. With an authorizer, followers and senders of requests to the controller may come by any listener, as in Kafka.

Beside Kafka's, which has only the authorizer's part of rule 2.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

from barnabas.api.authorize import CLUSTER_NAME, Authorizer, is_allowed, require_cluster_permission
from barnabas.api.brief import NeedsHandlerThread
from barnabas.api.request import ConnectionContext, Request
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.security.acl.acl_codes import AclOperation, ResourceType
from barnabas.transport.channel.authenticator import ANONYMOUS
from barnabas.transport.host_addresses import ip_address_of

logger = logging.getLogger(__name__)


class BrokerSenders(NamedTuple):
    """The clients that are brokers where no authorizer says it.

    own: the principal that this broker has at the listener of this name, as a client. others: the principals that other
    brokers may have instead. is_address: whether a broker has registered with this address; may block.
    """

    own: Callable[[str], str]
    others: frozenset[str]
    is_address: Callable[[str], bool]


class RefusedOrders:
    """The last order of a controller that this broker refused, for the message of a start that fails for it.

    Written by the threads of requests, read by the thread that starts the broker; each field is replaced by one
    assignment. on_own_refused: called when this broker's own principal was refused: no controller can reach the broker.
    """

    def __init__(self, on_own_refused: Callable[[], None]) -> None:
        self.last = ""
        self.of_own = ""
        self._on_own_refused = on_own_refused

    def add(self, request: Request[Any], error: ApiError, *, is_own: bool) -> None:
        """Note a refusal. is_own: the sender is this broker, as far as its principal says."""
        connection = request.connection
        self.last = f"{connection.principal} by listener {connection.listener_name}: {error.message}"
        if is_own:
            self.of_own = self.last
            self._on_own_refused()


class ControllerOrigin:
    """Lets the controller's three requests pass. has_control_plane: whether a listener is the controller's own."""

    def __init__(
        self,
        authorizer: Authorizer | None,
        senders: BrokerSenders,
        refused: RefusedOrders,
        *,
        has_control_plane: bool,
    ) -> None:
        self._authorizer = authorizer
        self._refused = refused
        self._senders = senders
        self._has_control_plane = has_control_plane

    # Permission first: with an authorizer, a client that lacks it learns nothing of the listeners.
    def require(self, request: Request[Any]) -> None:
        """Check the listener, the principal, the address and the permission that a request comes with.

        Raises ApiError: CLUSTER_AUTHORIZATION_FAILED for a listener or a client that must not send it.
        """
        try:
            self._check(request)
        except ApiError as error:
            connection = request.connection
            is_own = connection.from_privileged_listener and connection.principal == self._senders.own(
                connection.listener_name
            )
            # Any machine may send as User:ANONYMOUS; such a sender is taken for this broker only if it is on this one.
            self._refused.add(
                request,
                error,
                is_own=is_own and (connection.principal != ANONYMOUS or _is_on_this_machine(connection)),
            )
            raise

    def _check(self, request: Request[Any]) -> None:
        require_cluster_permission(self._authorizer, request, AclOperation.CLUSTER_ACTION)
        connection = request.connection
        if not connection.from_privileged_listener:
            whose = "the control plane's" if self._has_control_plane else "the inter-broker"
            _refuse_origin(request, f"listener {connection.listener_name} is not {whose} listener")
        if _needs_known_sender(self._authorizer, request):
            require_broker(request, self._senders)


class BrokerOrigin:
    """Lets the other requests of brokers pass. listener_name: the brokers' own listener."""

    def __init__(self, authorizer: Authorizer | None, senders: BrokerSenders, *, listener_name: str) -> None:
        self._authorizer = authorizer
        self._senders = senders
        self._listener_name = listener_name

    def require_broker_or_operator(self, request: Request[Any]) -> None:
        """Let pass an operator with ALTER on the cluster, else do as `require` does. Raises ApiError: as there."""
        authorizer = self._authorizer
        if _needs_known_sender(authorizer, request) or not is_allowed(
            authorizer, request, AclOperation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME, log_if_denied=False
        ):
            self.require(request)

    def require(self, request: Request[Any]) -> None:
        """Check the permission, the listener, the principal and the address that a request comes with.

        Raises ApiError: CLUSTER_AUTHORIZATION_FAILED for a listener or a client that must not send it.
        """
        require_cluster_permission(self._authorizer, request, AclOperation.CLUSTER_ACTION)
        self._require_listener(request)
        if _needs_known_sender(self._authorizer, request):
            require_broker(request, self._senders)

    def require_to_controller(self, request: Request[Any]) -> None:
        """Do as `require`, but leave the listener open where an authorizer decides. Raises ApiError: as there."""
        require_cluster_permission(self._authorizer, request, AclOperation.CLUSTER_ACTION)
        if _needs_known_sender(self._authorizer, request):
            self._require_listener(request)
            require_broker(request, self._senders)

    def require_follower(self, request: Request[Any]) -> None:
        """Check the sender of a fetch with a replica id, whose permission its handler asks for.

        Raises ApiError: CLUSTER_AUTHORIZATION_FAILED when no authorizer decides and the client is not a broker.
        Raises NeedsHandlerThread: the check may have to read the store.
        """
        if not request.connection.is_of_broker and _needs_known_sender(self._authorizer, request):
            if request.brief:
                raise NeedsHandlerThread
            self._require_listener(request)
            require_broker(request, self._senders)

    def _require_listener(self, request: Request[Any]) -> None:
        name = request.connection.listener_name
        if name != self._listener_name:
            _refuse_origin(request, f"listener {name} is not the inter-broker listener")


def _needs_known_sender(authorizer: Authorizer | None, request: Request[Any]) -> bool:
    """Return whether no authorizer has decided that this client acts for the cluster."""
    return authorizer is None or authorizer.allows_for_want_of_lists(
        request.connection, ResourceType.CLUSTER, CLUSTER_NAME
    )


def require_broker(request: Request[Any], senders: BrokerSenders) -> None:
    """Check that a request comes from a broker, by its principal and, without authentication, by its address.

    A connection that has once shown it is not asked again. Raises ApiError: CLUSTER_AUTHORIZATION_FAILED for another
    client.
    """
    connection = request.connection
    if connection.is_of_broker:
        return
    own = senders.own(connection.listener_name)
    if connection.principal != own and connection.principal not in senders.others:
        _refuse_origin(
            request,
            f"{connection.principal} is not the principal of brokers at listener {connection.listener_name}, which is "
            f"{own}. A broker with another principal has to be named in super.users",
        )
    # A client that proved nothing differs from others by its address alone.
    if connection.principal == ANONYMOUS and not (
        _is_on_this_machine(connection) or senders.is_address(connection.client_address)
    ):
        _refuse_origin(
            request,
            f"{connection.client_address} is neither on this machine nor the address of a registered broker. If a "
            "broker sends from another address than it advertises, an authorizer has to allow it CLUSTER_ACTION",
        )
    connection.is_of_broker = True


def _refuse_origin(request: Request[Any], reason: str) -> NoReturn:
    """Log why the origin of a request is refused. Raises ApiError: CLUSTER_AUTHORIZATION_FAILED, always.

    A warning is logged once a connection: a client may send such requests without end.
    """
    connection = request.connection
    logger.log(
        logging.DEBUG if connection.has_been_refused else logging.WARNING,
        "Refused %s of client %r on connection %s: %s",
        request.handler.api_key.name,
        request.header.client_id,
        connection.connection_id,
        reason,
    )
    connection.has_been_refused = True
    raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, f"{request.handler.api_key.name}: {reason}")


def _is_on_this_machine(connection: ConnectionContext) -> bool:
    """Return whether the peer's address is a loopback address, or the local end's of the same connection."""
    # A machine that connects to one of its own addresses sends from that same address; behind address translation it
    # does not, and the controller needs a listener on a loopback address, or a control plane.
    peer = ip_address_of(connection.client_address)
    if peer is None:
        return False
    # "local host:port-remote host:port-index"; no address has a hyphen
    local = connection.connection_id.partition("-")[0].rpartition(":")[0]
    return peer.is_loopback or peer == ip_address_of(local)
