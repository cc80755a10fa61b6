"""Clients that keep a broker's handlers busy: one DescribeLogDirs each in flight, until standard input ends.

    python -m benchmarks.control_plane_load PORT CONNECTIONS FILE

Started by `benchmarks.control_plane`, in a process of its own so that it shares no interpreter with who measures. The
number of answers so far is kept in FILE.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import sys
from pathlib import Path

DESCRIBE_LOG_DIRS = 35
NO_TOPICS = struct.pack(">i", 0)


def frame() -> bytes:
    """DescribeLogDirs v1 of no topic, size prefix included: small to ask, small to answer."""
    body = struct.pack(">hhih", DESCRIBE_LOG_DIRS, 1, 1, -1) + NO_TOPICS
    return struct.pack(">i", len(body)) + body


def run(port: int, connections: int, counter: Path) -> None:
    """Send, and again at each answer; an answer comes in one piece, it is so small."""
    request = frame()
    poller = select.epoll()
    poller.register(sys.stdin.fileno(), select.EPOLLIN)
    peers = {}
    for _ in range(connections):
        peer = socket.create_connection(("127.0.0.1", port))
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        peers[peer.fileno()] = peer
        poller.register(peer.fileno(), select.EPOLLIN)
        peer.sendall(request)
    answers = 0
    file = os.open(counter, os.O_WRONLY)
    while True:
        for number, _ in poller.poll():
            if number not in peers:
                return
            if not peers[number].recv(1 << 16):
                sys.exit("the broker closed a connection")
            answers += 1
            os.pwrite(file, b"%d" % answers, 0)
            peers[number].sendall(request)


if __name__ == "__main__":
    run(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
