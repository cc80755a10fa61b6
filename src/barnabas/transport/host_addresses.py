"""The addresses of a host name, for clients that try one after the other (KIP-302), the names of its addresses, and
whether anything listens at one.

Called by `NetworkClient` and `PeerConnection` on their own threads, by the clients when they are made, by
request handlers that compare addresses of brokers, and by `broker.settings.own_listeners`; the calls block as long as
the name server takes, `probe` a second at most. No state. Kafka: ClientUtils.resolve.
"""

from __future__ import annotations

import enum
import socket
from ipaddress import IPv4Address, IPv6Address, ip_address

IpAddress = IPv4Address | IPv6Address


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


def ip_address_of(text: str) -> IpAddress | None:
    """Return the address that is written so, or None. An IPv4 address in IPv6 notation is the IPv4 address."""
    try:
        address = ip_address(text.strip("[]").partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


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


def canonical_host_name() -> str:
    """Return this machine's fully qualified name as the resolver knows it, or the bare host name.

    Kafka: InetAddress.getCanonicalHostName.
    """
    return socket.getfqdn()


_TIMEOUT_SECONDS = 1.0


class Probe(enum.Enum):
    """The answer of a host to an attempt to connect."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    """The host is up, and nothing listens at the port."""
    UNKNOWN = "unknown"
    """No answer within a second, or no way to the host."""


def probe(host: str, port: int) -> Probe:
    """Connect and close the connection again."""
    try:
        socket.create_connection((host, port), _TIMEOUT_SECONDS).close()
    except ConnectionRefusedError:
        return Probe.REFUSED
    except OSError:
        return Probe.UNKNOWN
    return Probe.ACCEPTED
