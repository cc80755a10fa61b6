"""The check of the origin of the controller's requests: LeaderAndIsr, StopReplica and UpdateMetadata.

Asked by their handler on the request's thread; immutable, so nothing guards it. These three requests open, close and
delete logs, so a broker that took them from any client would lose its data to the first one that can connect:

1. With `control.plane.listener.name` they come by that listener and no other.
2. Without it they come by the brokers' own listener (`inter.broker.listener.name`).
3. An authorizer must allow CLUSTER_ACTION. Without an authorizer and a control plane, the sender must be on this
   machine (its address is a loopback address, or the address it connected to), or on that of a registered broker
   (decisions/0061).

Beside Kafka's, which has only the authorizer's part of rule 3.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, NoReturn

from barnabas.api.authorize import Authorizer, require_cluster_permission
from barnabas.api.request import ConnectionContext, Request
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.security.acl.acl_codes import AclOperation
from barnabas.transport.host_addresses import ip_address_of

logger = logging.getLogger(__name__)


class ControllerOrigin:
    """Lets the controller's requests pass.

    has_control_plane: whether a listener is the controller's own. is_broker_address: whether a broker has registered
    with this address; may block.
    """

    def __init__(
        self, authorizer: Authorizer | None, is_broker_address: Callable[[str], bool], *, has_control_plane: bool
    ) -> None:
        self._authorizer = authorizer
        self._is_broker_address = is_broker_address
        self._has_control_plane = has_control_plane

    # Permission first: with an authorizer, a client that lacks it learns nothing of the listeners.
    def require(self, request: Request[Any]) -> None:
        """Check the listener, the address and the permission that a request comes with.

        Raises ApiError: CLUSTER_AUTHORIZATION_FAILED for a listener, an address or a client that must not send it.
        """
        require_cluster_permission(self._authorizer, request, AclOperation.CLUSTER_ACTION)
        connection = request.connection
        if not connection.from_privileged_listener:
            whose = "the control plane's" if self._has_control_plane else "the inter-broker"
            refuse_origin(request, f"listener {connection.listener_name} is not {whose} listener")
        if self._authorizer is None and not self._has_control_plane:
            require_broker_address(request, self._is_broker_address)


def require_broker_address(request: Request[Any], is_broker_address: Callable[[str], bool]) -> None:
    """Check that a request comes from this machine, or from that of a registered broker.

    Raises ApiError: CLUSTER_AUTHORIZATION_FAILED when it comes from another one.
    """
    connection = request.connection
    if not is_on_this_machine(connection) and not is_broker_address(connection.client_address):
        refuse_origin(
            request,
            f"{connection.client_address} is neither on this machine nor the address of a registered broker. If a "
            "broker sends from another address than it advertises, an authorizer has to allow it CLUSTER_ACTION",
        )


def refuse_origin(request: Request[Any], reason: str) -> NoReturn:
    """Log why the origin of a request is refused. Raises ApiError: CLUSTER_AUTHORIZATION_FAILED, always."""
    logger.warning(
        "Refused %s of client %r on connection %s: %s",
        request.handler.api_key.name,
        request.header.client_id,
        request.connection.connection_id,
        reason,
    )
    raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, f"{request.handler.api_key.name}: {reason}")


def is_on_this_machine(connection: ConnectionContext) -> bool:
    """Return whether the peer's address is a loopback address, or the local end's of the same connection."""
    # A machine that connects to one of its own addresses sends from that same address; behind address translation it
    # does not, and the controller needs a listener on a loopback address, or a control plane.
    peer = ip_address_of(connection.client_address)
    if peer is None:
        return False
    # "local host:port-remote host:port-index"; no address has a hyphen
    local = connection.connection_id.partition("-")[0].rpartition(":")[0]
    return peer.is_loopback or peer == ip_address_of(local)
