"""The name of an accepted connection: `local host:port-remote host:port-index`. Pure.

Made by the Processor when it configures a connection; log lines and the Selector know the connection by it.
Kafka: ConnectionId.
"""

from __future__ import annotations

from typing import NamedTuple


class ConnectionId(NamedTuple):
    """Both ends of a connection, and a number that distinguishes connections which reuse a port."""

    local_host: str
    local_port: int
    remote_host: str
    remote_port: int
    sequence: int

    def __str__(self) -> str:
        return f"{self.local_host}:{self.local_port}-{self.remote_host}:{self.remote_port}-{self.sequence}"
