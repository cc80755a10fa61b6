"""The addresses of a host name, for clients that try one after the other (KIP-302).

Called by `rpc.NetworkClient` on its own thread; the call blocks as long as the name server takes. No state.
Kafka: ClientUtils.resolve.
"""

from __future__ import annotations

import socket


class UnknownHost(OSError):
    """No name server knows an address of the host."""


def host_addresses(host: str, port: int) -> tuple[str, ...]:
    """Return the IP addresses of `host` in the order to try them, none twice.

    Raises UnknownHost when the name server knows no address of it.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        raise UnknownHost(f"unknown host ({error.strerror})") from error
    return tuple(dict.fromkeys(str(address[4][0]) for address in found))
