"""The thread that sends markers to the leaders of partitions, this broker among them.

`add` is called on any thread, and wakes the thread, which owns the dispatch and the connections. `_lock` guards the
queue between them, and the flag without which the thread must not be woken: it closes its wake-up. Markers to this
broker take the same way as those to others, through its inter-broker listener: one path to test, and the leader may
move. A request that fails is repeated after a pause, until the marker is written or another broker coordinates the
transaction. Kafka: TransactionMarkerChannelManager (TxnMarkerSenderThread).
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from barnabas.config.config_error import ConfigError
from barnabas.coordinator.transaction.markers.dispatch import MarkerDispatch, MarkerRequest
from barnabas.coordinator.transaction.markers.ended_transaction import EndedTransaction
from barnabas.metadata.metadata_image import MetadataImage
from barnabas.protocol.messages.inter_broker import WriteTxnMarkersResponse
from barnabas.purgatory.action_queue import ActionQueue
from barnabas.rpc.client_request import ClientResponse
from barnabas.rpc.network_client import NetworkClient
from barnabas.rpc.node import Node

logger = logging.getLogger(__name__)

RETRY_MS: Final = 100
"""The pause before a marker is sent again, or a missing leader is looked for again."""
_LONGEST_POLL_MS: Final = 1_000
_VERSIONS: Final = (0, 1)


class BrokerAddresses(Protocol):
    """The way to brokers. Implemented by `broker`."""

    def node(self, broker_id: int) -> Node:
        """Return the address of a live broker. Raises KeyError or ConfigError when it is not known now."""

    def new_client(self) -> NetworkClient:
        """Return a client for all brokers."""


class MarkerSender:
    """The thread and its queue. `dispatch` is used by the thread alone."""

    def __init__(
        self,
        dispatch: MarkerDispatch,
        addresses: BrokerAddresses,
        image: Callable[[], MetadataImage],
        actions: ActionQueue,
        name: str,
    ) -> None:
        self._dispatch = dispatch
        self._addresses = addresses
        self._image = image
        self._actions = actions
        self._lock = threading.Lock()
        self._added: deque[EndedTransaction] = deque()
        self._client: NetworkClient | None = None
        self._is_running = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._retry_at_ms = 0
        self._to_send: list[MarkerRequest] = []

    def start(self) -> None:
        """Begin to send. Transactions that were added before are sent now."""
        self._client = self._addresses.new_client()
        self._is_running = True
        self._thread.start()

    def shutdown(self) -> None:
        """Send no more, and wait for the thread. Markers that are not written are written after the next start."""
        with self._lock:
            if not self._is_running or self._client is None:
                return
            self._is_running = False
            self._client.wakeup()
        self._thread.join()

    def add(self, transaction: EndedTransaction) -> None:
        """Have the markers of a transaction written."""
        with self._lock:
            self._added.append(transaction)
            if self._is_running and self._client is not None:
                self._client.wakeup()

    # -- the thread

    def _run(self) -> None:
        client = self._client
        assert client is not None
        try:
            while self._is_running:
                try:
                    self._turn(client)
                except Exception:
                    # A marker that is not sent would hold up every reader of committed records: the thread goes on.
                    logger.exception("Sending transaction markers failed")
                    client.poll(RETRY_MS, client.now_ms())
        finally:
            client.close()

    def _turn(self, client: NetworkClient) -> None:
        """Send what can be sent, and wait for an answer or for more."""
        with self._lock:
            added, self._added = self._added, deque()
        for transaction in added:
            self._dispatch.add(transaction)
        now_ms = client.now_ms()
        if now_ms >= self._retry_at_ms:
            self._to_send += self._dispatch.requests(self._image())
            self._to_send = [request for request in self._to_send if not self._send(client, request)]
        # What appends queued: completions of other operations, which no lock may be held for.
        self._actions.run_all()
        is_waiting = bool(self._to_send) or (len(self._dispatch) and not client.in_flight_count())
        client.poll(RETRY_MS if is_waiting else _LONGEST_POLL_MS, client.now_ms())
        self._actions.run_all()

    def _send(self, client: NetworkClient, request: MarkerRequest) -> bool:
        """Send a request if the broker can be reached now. Returns False for one that has to wait."""
        try:
            node = self._addresses.node(request.node_id)
        except (KeyError, ConfigError):
            # The broker is gone: the partitions have other leaders soon.
            self._dispatch.answered(request, None)
            self._pause(client)
            return True
        if not client.ready(node, client.now_ms()):
            if client.connection_failed(node, client.now_ms()):
                self._dispatch.answered(request, None)
                self._pause(client)
                return True
            return False

        def answered(response: ClientResponse) -> None:
            body = response.body if isinstance(response.body, WriteTxnMarkersResponse) else None
            if self._dispatch.answered(request, body):
                self._pause(client)

        client.send(
            client.new_request(request.node_id, request.message, versions=_VERSIONS, callback=answered),
            client.now_ms(),
        )
        return True

    def _pause(self, client: NetworkClient) -> None:
        self._retry_at_ms = client.now_ms() + RETRY_MS
