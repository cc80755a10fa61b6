"""Bootstrap addresses: `host:port,[::1]:9092` as nodes with ids nobody has (Kafka: ClientUtils). Pure."""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.rpc.node import Node


def bootstrap_nodes(servers: str | Sequence[str]) -> list[Node]:
    """Nodes with the ids -1, -2, ... Raises ValueError for an address without host or port, or when there are none."""
    addresses = servers.split(",") if isinstance(servers, str) else servers
    nodes: list[Node] = []
    for address in addresses:
        if not address.strip():
            continue
        host, colon, port = address.strip().rpartition(":")
        host = host.rpartition("//")[2].removeprefix("[").removesuffix("]")
        if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise ValueError(f"Invalid url in bootstrap_servers: {address!r}; expected host:port")
        nodes.append(Node(-1 - len(nodes), host, int(port)))
    if not nodes:
        raise ValueError("No bootstrap urls given in bootstrap_servers")
    return nodes
