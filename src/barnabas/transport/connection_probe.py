"""Asks whether anything listens at an address.

Called by threads that may wait a second: those of the controller's channels, and the one that starts the broker. No
state, no lock.
"""

from __future__ import annotations

import enum
import socket

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
