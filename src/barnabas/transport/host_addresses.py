"""The addresses of a host name, for clients that try one after the other (KIP-302), and the names of its addresses.

Called by `rpc.NetworkClient` on its own thread, and by the clients when they are made; the calls block as long as the
name server takes. No state.
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


def canonical_host_names(host: str, port: int) -> tuple[str, ...]:
    """Return the canonical name of each address of `host`, none twice; the address itself where it has no name.

    Raises UnknownHost when the name server knows no address of the host.
    """
    names = []
    for address in host_addresses(host, port):
        try:
            names.append(socket.getnameinfo((address, port), socket.NI_NUMERICSERV)[0])
        except socket.gaierror:
            # The name server does not answer for this address. The address alone is as good to connect to.
            names.append(address)
    return tuple(dict.fromkeys(names))
