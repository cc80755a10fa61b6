"""Sockets with a path, which processes of one user on one machine share: no other user and no other machine gets in.

`listen` is called by `barnabas serve --processes`, on the main thread before others start, since the mask of modes is
the process's; `connect` by the connections of the metadata store, on their threads. Stateless, so no lock.
"""

from __future__ import annotations

import os
import socket

_ALL_BUT_THE_USER = 0o177
"""What is taken from the mode of a new socket: 0600 is left."""


def listen(path: str) -> socket.socket:
    """Return a listening socket at a path where there is no file. Only this user may connect to it.

    Raises OSError: the directory cannot be used, or the path is longer than about 100 characters.
    """
    listener = socket.socket(socket.AF_UNIX)
    before = os.umask(_ALL_BUT_THE_USER)
    try:
        listener.bind(path)
        listener.listen()
    except BaseException:
        listener.close()
        raise
    finally:
        os.umask(before)
    return listener


def connect(path: str) -> socket.socket:
    """Return a connection to the socket at a path. Raises OSError: none listens there, or it is another user's."""
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(path)
    except BaseException:
        connection.close()
        raise
    return connection
