"""Ports for servers of tests that stop and start again: none that an outgoing connection takes in between.

Used by BrokerProcess and by the project's own tests and benchmarks, on any thread. A PortChoice's lock guards its
position.
"""

from __future__ import annotations

import errno
import os
import re
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

_FIRST_PORT: Final = 16_384
_LAST_PORT: Final = 65_535
_BLOCK_PORTS: Final = 128
_PORT_RANGE: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
_PORT_ZERO: Final = re.compile(r":0(?=\s*(?:,|$))")


class NoFreePort(RuntimeError):
    """There is no port left for a server of this process."""


class PortChoice:
    """The ports that one process gives to its servers, one after the other; `ephemeral` are the kernel's.

    A server that is restarted comes back to its port. The kernel gives the ephemeral ports to outgoing connections of
    any program: meanwhile one of them may have taken the port. So ports are chosen below that range, or above it where
    it begins too early. Processes that run side by side have process ids near each other, and so different blocks.
    """

    def __init__(self, process_id: int, ephemeral: range) -> None:
        """Raises NoFreePort when the ephemeral range leaves no block."""
        below, above = range(_FIRST_PORT, ephemeral.start), range(ephemeral.stop, _LAST_PORT + 1)
        ports = below if len(below) >= len(above) else above
        blocks = len(ports) // _BLOCK_PORTS
        if not blocks:
            raise NoFreePort(f"the ephemeral ports, {ephemeral}, leave no others for servers")
        first = process_id % blocks * _BLOCK_PORTS
        self.block = ports[first : first + _BLOCK_PORTS]
        self._next = 0
        self._lock = threading.Lock()

    def next(self, is_free: Callable[[int], bool]) -> int:
        """Return the next free port of the block. Raises NoFreePort when none is free."""
        with self._lock:
            for _ in self.block:
                port = self.block[self._next % _BLOCK_PORTS]
                self._next += 1
                if is_free(port):
                    return port
        raise NoFreePort(f"none of the ports {self.block.start} to {self.block.stop - 1} is free")


_choices: Final[dict[int, PortChoice]] = {}
"""By process id: a forked child gets a block, and a lock, of its own."""


def free_port() -> int:
    """Return a TCP port of the loopback interface that was free a moment ago, and that no outgoing connection takes.

    Raises NoFreePort when this process has no free port left.
    """
    process_id = os.getpid()
    choice = _choices.get(process_id)
    if choice is None:
        choice = _choices.setdefault(process_id, PortChoice(process_id, ephemeral_ports()))
    return choice.next(_is_free)


def has_open_ports(listeners: str) -> bool:
    """Return whether one of the listeners (`PLAINTEXT://127.0.0.1:0,...`) leaves its port to the server."""
    return _PORT_ZERO.search(listeners) is not None


def with_free_ports(listeners: str) -> str:
    """Return the listeners with a free port wherever the port is 0. Raises NoFreePort when there are too few."""
    return _PORT_ZERO.sub(lambda _: f":{free_port()}", listeners)


def ephemeral_ports() -> range:
    """Return the ports that the kernel gives to outgoing connections."""
    try:
        first, last = _PORT_RANGE.read_text().split()
    except FileNotFoundError:  # not Linux: what IANA recommends, and macOS does
        return range(49_152, _LAST_PORT + 1)
    return range(int(first), int(last) + 1)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            return False
        return True
