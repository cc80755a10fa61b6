"""The name of this machine, for listeners that are bound to every address and advertise none.

Called by `broker` at start, once; the look-up may block. No state.
Kafka: EndPoint and InetAddress.getCanonicalHostName.
"""

from __future__ import annotations

import socket


def canonical_host_name() -> str:
    """Return the fully qualified name as the resolver knows it, or the bare host name."""
    return socket.getfqdn()
