"""Settings that make a session's dealings with other processes quick: its Python workers, and the programs it starts.

Called by `session` when it makes a local session, on the main thread. The only state is a directory in the system's
temporary directory, which lives as long as the session.

Python workers. Spark's JVM and a Python worker talk through a TCP socket without TCP_NODELAY. The JVM writes what a
task needs in two pieces. Nagle's algorithm holds the second one, which is small, back until the worker's kernel has
acknowledged the first one, and the kernel delays that acknowledgement by 40 ms, because the worker has nothing to say
yet. So every task of Python waits for 40 ms. A Unix domain socket has no such rules, and moves rows for less CPU.

Programs. Hadoop has no native code in pyspark, so for each file that Spark writes into a checkpoint it runs `chmod`,
twice (for the file and its checksum): four processes for each micro-batch. Java 17 starts a process by way of a second
program, `jspawnhelper`; with vfork it starts it directly.
"""

from __future__ import annotations

import os
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

_SOCKET_PATH_BYTES = 103
"""The longest path of a Unix domain socket: 103 bytes on macOS, 107 on Linux."""
_SOCKET_NAME_BYTES = len("/.00000000-0000-0000-0000-000000000000.sock")

VFORK = "-Djdk.lang.Process.launchMechanism=VFORK"


def quick_java_options(platform: str = sys.platform) -> tuple[str, ...]:
    """Return the options for the JVM. Java knows vfork on Linux only, and fails to start any program elsewhere."""
    return (VFORK,) if platform == "linux" else ()


@contextmanager
def worker_sockets(parent: str | None = None) -> Iterator[dict[str, str]]:
    """Yield the settings by which Python workers are reached through Unix domain sockets. No settings: by TCP.

    The sockets are in a directory of their own, below `parent` (None: the system's temporary directory), which only
    this user can enter: Spark does not ask for a password on such a socket.
    """
    parent = tempfile.gettempdir() if parent is None else parent
    with tempfile.TemporaryDirectory(prefix="barnabas-", dir=parent, ignore_cleanup_errors=True) as directory:
        fits = len(os.fsencode(directory)) + _SOCKET_NAME_BYTES <= _SOCKET_PATH_BYTES
        if not fits or not hasattr(socket, "AF_UNIX"):
            yield {}
            return
        yield {
            "spark.python.unix.domain.socket.enabled": "true",
            "spark.python.unix.domain.socket.dir": directory,
        }
