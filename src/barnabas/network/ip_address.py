"""The canonical text of IP addresses, by which a limit and the connections it is meant for are compared.

Used by the settings of this layer and by ConnectionQuotas; a name is looked up, which may block. No state.
Kafka: InetAddress.getByName.
"""

from __future__ import annotations

import socket
from typing import Final

MAPPED_IPV4: Final = "::ffff:"
"""The prefix of an IPv4 address on a socket that listens to both families."""


def canonical_address(text: str) -> str:
    """Return an address as accepted connections show it. Raises ValueError when `text` is no address."""
    import ipaddress  # noqa: PLC0415 - only brokers that limit addresses need it

    return str(ipaddress.ip_address(text.strip().removeprefix(MAPPED_IPV4)))


def addresses_of(host: str) -> list[str]:
    """Return the addresses of a host, which may be an address already. Raises OSError for an unknown name."""
    try:
        return [canonical_address(host)]
    except ValueError:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        return [str(address[0]) for *_, address in found]
