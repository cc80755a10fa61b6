"""Origins of brokers' requests, for handlers that are tested without a broker."""

from __future__ import annotations

from collections.abc import Callable

from barnabas.api.authorize import Authorizer
from barnabas.api.origins import BrokerOrigin, BrokerSenders, ControllerOrigin, RefusedOrders
from barnabas.transport.channel.authenticator import ANONYMOUS


def _nowhere(_address: str) -> bool:
    return False


def broker_senders(
    is_address: Callable[[str], bool] = _nowhere, *, own: str = ANONYMOUS, others: frozenset[str] = frozenset()
) -> BrokerSenders:
    """Return who is a broker: clients from this machine and from some addresses, or with these principals."""
    return BrokerSenders(lambda _listener: own, others, is_address)


def broker_origin(authorizer: Authorizer | None = None, listener_name: str = "PLAINTEXT") -> BrokerOrigin:
    """Return the check of brokers' requests; without an authorizer, of those from this machine."""
    return BrokerOrigin(authorizer, broker_senders(), listener_name=listener_name)


def controller_origin(authorizer: Authorizer | None = None) -> ControllerOrigin:
    """Return the check of the controller's requests; without an authorizer, of those from this machine."""
    return ControllerOrigin(authorizer, broker_senders(), RefusedOrders(lambda: None), has_control_plane=False)
