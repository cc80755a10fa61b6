"""The name of an accepted connection: `local host:port-remote host:port-index`. Pure.

Made by the Processor when it configures a connection, parsed by it when the connection is gone. Kafka: ConnectionId.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_FORM = re.compile(r"(?P<local_host>.*):(?P<local_port>\d+)-(?P<remote_host>.*):(?P<remote_port>\d+)-(?P<sequence>\d+)")


class ConnectionId(NamedTuple):
    """Both ends of a connection and a number, which tells connections apart that reuse a port."""

    local_host: str
    local_port: int
    remote_host: str
    remote_port: int
    sequence: int

    def __str__(self) -> str:
        return f"{self.local_host}:{self.local_port}-{self.remote_host}:{self.remote_port}-{self.sequence}"

    @classmethod
    def parse(cls, text: str) -> ConnectionId:
        """The parts of a connection id; IPv6 addresses may contain colons. Raises ValueError."""
        match = _FORM.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} is no connection id")
        return cls(
            match["local_host"],
            int(match["local_port"]),
            match["remote_host"],
            int(match["remote_port"]),
            int(match["sequence"]),
        )
