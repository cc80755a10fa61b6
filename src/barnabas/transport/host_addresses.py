"""The addresses of a host name, for clients that try one after the other (Kafka: ClientUtils.resolve, KIP-302).

Called by `rpc.NetworkClient` on its own thread; it blocks as long as the name server takes. No state.
"""

from __future__ import annotations

import socket


def host_addresses(host: str, port: int) -> tuple[str, ...]:
    """IP addresses of `host`, in the order to try them, none twice. Raises OSError when the name is unknown."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(address[4][0]) for address in found))
