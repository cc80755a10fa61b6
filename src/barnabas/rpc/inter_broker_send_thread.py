"""A thread that sends requests to brokers, this one among them: the markers of transactions, changes of the ISR.

Any thread calls `start`, `add` and `shutdown`; `turn` runs on the thread, which alone uses the client. `_lock` guards
the queue between them, and the flag without which the thread must not be woken: the thread closes the client, and its
wake-up with it. Kafka: InterBrokerSendThread.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from barnabas.rpc.connection_states import Node
from barnabas.rpc.network_client import NetworkClient

logger = logging.getLogger(__name__)

T = TypeVar("T")


class BrokerAddresses(Protocol):
    """The way to brokers. Implemented by `broker`."""

    def node(self, broker_id: int) -> Node:
        """Return the address of a live broker. Raises KeyError or ConfigError when it is not known now."""

    def new_client(self) -> NetworkClient:
        """Return a client for all brokers."""


class InterBrokerSendThread(Generic[T]):
    """The thread, its client and the queue of what it is to send.

    turn: called again and again with the client and what was added since; it sends what can be sent, and polls.
    pause_ms: how long the thread rests after a turn that failed.
    """

    def __init__(
        self, addresses: BrokerAddresses, turn: Callable[[NetworkClient, deque[T]], None], name: str, pause_ms: int
    ) -> None:
        self._addresses = addresses
        self._turn = turn
        self._pause_ms = pause_ms
        self._lock = threading.Lock()
        self._added: deque[T] = deque()
        self._client: NetworkClient | None = None
        self._is_stopped = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin to send what was added before, too. Does nothing when the thread runs, or has been shut down."""
        with self._lock:
            if self._client is None and not self._is_stopped:
                self._client = self._addresses.new_client()
                self._thread.start()

    def add(self, item: T) -> bool:
        """Give the thread something to send, now or once it is started. Return False after the shutdown."""
        with self._lock:
            if self._is_stopped:
                return False
            self._added.append(item)
            if self._client is not None:
                self._client.wakeup()
            return True

    def shutdown(self) -> None:
        """Send no more, and wait for the thread. A second call does nothing."""
        with self._lock:
            if self._is_stopped:
                return
            self._is_stopped = True
            if self._client is None:
                return
            self._client.wakeup()
        self._thread.join()

    def take_added(self) -> deque[T]:
        """Return what was added and not handed to a turn yet."""
        with self._lock:
            added, self._added = self._added, deque()
        return added

    def _run(self) -> None:
        client = self._client
        assert client is not None
        try:
            while not self._is_stopped:
                try:
                    self._turn(client, self.take_added())
                except Exception:
                    # Whoever waits for an answer would wait for ever for a thread that has ended.
                    logger.exception("A turn of %s failed", self._thread.name)
                    client.poll(self._pause_ms, client.now_ms())
        finally:
            client.close()
