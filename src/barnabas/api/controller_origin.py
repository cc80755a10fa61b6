"""The check of the origin of the controller's requests: LeaderAndIsr, StopReplica and UpdateMetadata.

Asked by their handler on the request's thread; immutable, so nothing guards it. These three requests open, close and
delete logs, so a broker that took them from any client would lose its data to the first one that can connect:

1. With `control.plane.listener.name` they come by that listener and no other.
2. Without it they come by the brokers' own listener (`inter.broker.listener.name`).
3. An authorizer must allow CLUSTER_ACTION. Without an authorizer and a control plane, the sender must be on this
   machine: its address is a loopback address, or the address it connected to.

Beside Kafka's, which has only the authorizer's part of rule 3.
"""

from __future__ import annotations

import logging
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any, NoReturn

from barnabas.api.authorize import Authorizer, require_cluster_permission
from barnabas.api.request import ConnectionContext, Request
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.security.acl.acl_codes import AclOperation

logger = logging.getLogger(__name__)


class ControllerOrigin:
    """Lets the controller's requests pass. has_control_plane: whether a listener is the controller's own."""

    def __init__(self, authorizer: Authorizer | None, *, has_control_plane: bool) -> None:
        self._authorizer = authorizer
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
        if self._authorizer is None and not self._has_control_plane and not is_on_this_machine(connection):
            refuse_origin(
                request,
                f"without an authorizer, and without control.plane.listener.name, {connection.client_address} must "
                "be a loopback address or this broker's own",
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
    peer = _address(connection.client_address)
    if peer is None:
        return False
    # "local host:port-remote host:port-index"; no address has a hyphen
    local = connection.connection_id.partition("-")[0].rpartition(":")[0]
    return peer.is_loopback or peer == _address(local)


def _address(text: str) -> IPv4Address | IPv6Address | None:
    """Parse an address; an IPv4 address in IPv6 notation is the IPv4 address."""
    try:
        address = ip_address(text.strip("[]").partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
