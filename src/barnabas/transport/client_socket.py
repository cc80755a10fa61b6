"""The sockets that a Selector opens itself: their addresses and options.

Called by the Selector's thread; no state. Kafka: Selector (connect, configureSocketChannel).
"""

from __future__ import annotations

import socket
from typing import Any, Final

from barnabas.transport.transport_layer import StreamSocket

USE_DEFAULT_BUFFER_SIZE: Final = -1


def open_socket(family: int) -> socket.socket:
    """Make a non-blocking socket that is going to connect. Raises OSError when there are too many open files."""
    stream_socket = socket.socket(family, socket.SOCK_STREAM)
    stream_socket.setblocking(False)
    return stream_socket


def set_options(stream_socket: StreamSocket, send_buffer_bytes: int, receive_buffer_bytes: int) -> None:
    """Keep the connection alive, delay nothing, and size the kernel's buffers unless that is left to the system."""
    stream_socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    stream_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if send_buffer_bytes != USE_DEFAULT_BUFFER_SIZE:
        stream_socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer_bytes)
    if receive_buffer_bytes != USE_DEFAULT_BUFFER_SIZE:
        stream_socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)


def resolve(address: tuple[str, int]) -> tuple[int, Any]:
    """Return the address family and the first address of (host, port). Blocks for a host name.

    Raises OSError when the name is unknown.
    """
    host, port = address
    family, _, _, _, resolved = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    return family, resolved
