"""A relay between clients and a broker that now and then cuts a connection instead of passing an answer on.

What was asked for has happened then, and the client does not know: it asks again. For tests of idempotent clients.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Callable
from functools import partial

from tests.support.relay import Relay


class LossyRelay(Relay):
    """Cuts with the probability `loss` whenever the broker sends something, while `is_lossy`."""

    def __init__(self, loss: float, seed: int) -> None:
        self.is_lossy = False
        self.cuts = 0
        self._loss = loss
        self._random = random.Random(seed)
        super().__init__()

    def directions(self, client: socket.socket, broker: socket.socket) -> tuple[Callable[[], None], Callable[[], None]]:
        return partial(self._copy, client, broker, False), partial(self._copy, broker, client, True)

    def _copy(self, source: socket.socket, target: socket.socket, is_answer: bool) -> None:
        while data := source.recv(1 << 16):
            if is_answer and self.is_lossy and self._random.random() < self._loss:
                self.cuts += 1
                return
            target.sendall(data)
