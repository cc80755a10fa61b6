"""Bootstrap addresses, such as `host:port,[::1]:9092`, and the failures to reach them. Times are passed in.

Called by the clients when they are made, and by `ClusterMetadata` under its condition. Kafka: ClientUtils.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence

from barnabas.clients.errors import Unreachable
from barnabas.rpc.node import Node
from barnabas.transport.host_addresses import UnknownHost, canonical_host_names

logger = logging.getLogger(__name__)

USE_ALL_DNS_IPS = "use_all_dns_ips"
RESOLVE_CANONICAL_BOOTSTRAP_SERVERS_ONLY = "resolve_canonical_bootstrap_servers_only"


def bootstrap_nodes(
    servers: str | Sequence[str],
    client_dns_lookup: str = USE_ALL_DNS_IPS,
    *,
    canonical_names: Callable[[str, int], Iterable[str]] = canonical_host_names,
) -> list[Node]:
    """Return nodes for the addresses, with ids that no broker has: -1, -2, and so on.

    With RESOLVE_CANONICAL_BOOTSTRAP_SERVERS_ONLY, an address stands for the canonical names of all machines behind it
    (KIP-235), which Kerberos needs; `canonical_names` looks them up, given host and port. Raises ValueError for an
    address without host or port, when there are none, or when no canonical name can be found.
    """
    nodes = _parse(servers)
    if client_dns_lookup != RESOLVE_CANONICAL_BOOTSTRAP_SERVERS_ONLY:
        return nodes
    addresses: dict[tuple[str, int], None] = {}
    for node in nodes:
        try:
            addresses.update(((name, node.port), None) for name in canonical_names(node.host, node.port))
        except UnknownHost as error:
            logger.warning("Cannot resolve %s:%d of bootstrap_servers: %s", node.host, node.port, error)
    if not addresses:
        given = ", ".join(f"{node.host}:{node.port}" for node in nodes)
        raise ValueError(f"No resolvable bootstrap urls given in bootstrap_servers: {given}; expected known hosts")
    return [Node(-1 - index, host, port) for index, (host, port) in enumerate(addresses)]


def _parse(servers: str | Sequence[str]) -> list[Node]:
    """Return the nodes at the addresses, with the ids -1, -2 and so on.

    Raises ValueError for an address without host or port, and when there are none.
    """
    addresses = servers.split(",") if isinstance(servers, str) else servers
    nodes: list[Node] = []
    for address in addresses:
        if not address.strip():
            continue
        host, colon, port = address.strip().rpartition(":")
        # Kafka takes addresses with a protocol too, such as PLAINTEXT://host:port, and ignores the protocol.
        host = host.rpartition("//")[2].removeprefix("[").removesuffix("]")
        if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise ValueError(f"Invalid url in bootstrap_servers: {address!r}; expected host:port")
        nodes.append(Node(-1 - len(nodes), host, int(port)))
    if not nodes:
        raise ValueError("No bootstrap urls given in bootstrap_servers")
    return nodes


class BootstrapFailures:
    """The last failure to reach each bootstrap broker. Without a `timeout_ms`, the failures are never final."""

    def __init__(self, nodes: Sequence[Node], timeout_ms: int | None) -> None:
        self.is_final = False
        """Whether every broker has failed, and the first failure is longer ago than the timeout."""
        self._node_count = len(nodes)
        self._timeout_ms = timeout_ms
        self._since_ms: int | None = None
        self._reasons: dict[str, str] = {}

    def __bool__(self) -> bool:
        return bool(self._reasons)

    def note(self, node: Node, reason: str, now_ms: int) -> None:
        """Note a failed attempt to reach a broker."""
        if self._since_ms is None:
            self._since_ms = now_ms
        self._reasons[f"{node.host}:{node.port}"] = reason
        if self._timeout_ms is not None and len(self._reasons) == self._node_count:
            self.is_final = now_ms - self._since_ms >= self._timeout_ms

    def error(self) -> Unreachable:
        """Return the error that names every address that was tried."""
        reasons = ", ".join(f"{address}: {reason}" for address, reason in self._reasons.items())
        return Unreachable(f"No broker can be reached ({reasons})")
