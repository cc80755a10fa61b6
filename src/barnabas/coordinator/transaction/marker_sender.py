"""The sending of an ended transaction's markers, and the storing of its completion when all are written.

Markers to this broker take the same way as those to others, through its inter-broker listener: one path to test, and
the leader may move. A request that fails is repeated after a pause, until the marker is written or another broker
coordinates the transaction; the completion is repeated while the log does not take the record.

Both parts are made by `broker.stages.transaction_coordinator_builder`. `MarkerSender.add` is called on any thread, and
wakes the sender's (`inter_broker_send_thread`, which has the lock), which owns the dispatch and the connections, and
calls `TransactionCompletion.markers_written`. The completion's repetitions run on the scheduler's thread, and its
results come on any thread; its `_lock` guards the number of waiting ones. Kafka: TransactionMarkerChannelManager
(TxnMarkerSenderThread, tryAppendToLog, txnLogAppendRetryQueue).
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Final, TypeAlias

from barnabas.config.config_error import ConfigError
from barnabas.coordinator.transaction.marker_dispatch import EndedTransaction, MarkerDispatch, MarkerRequest
from barnabas.metadata.metadata_image import MetadataImage
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.inter_broker import WriteTxnMarkersResponse
from barnabas.purgatory.action_queue import ActionQueue
from barnabas.rpc.client_request import ClientResponse
from barnabas.rpc.inter_broker_send_thread import BrokerAddresses, InterBrokerSendThread
from barnabas.rpc.network_client import NetworkClient
from barnabas.runtime.scheduler import Scheduler

RETRY_MS: Final = 100
"""The pause before a marker is sent again, a missing leader is looked for again, or a completion is stored again."""
_LONGEST_POLL_MS: Final = 1_000
_VERSIONS: Final = (0, 1)

StoreCompletion: TypeAlias = Callable[[EndedTransaction, Callable[[ErrorCode], None]], None]


class TransactionCompletion:
    """The storing of the fact that transactions are complete. store: TransactionService.complete."""

    def __init__(self, store: StoreCompletion, scheduler: Scheduler, actions: ActionQueue) -> None:
        self._store = store
        self._scheduler = scheduler
        self._actions = actions
        self._lock = threading.Lock()
        self._waiting = 0

    @property
    def waiting(self) -> int:
        """The number of completions that wait to be stored again."""
        return self._waiting

    def markers_written(self, ended: EndedTransaction) -> None:
        """Store that a transaction is complete."""
        self._store(ended, lambda error: self._retry(ended, error))

    def _retry(self, ended: EndedTransaction, error: ErrorCode) -> None:
        # The log may take the record later, whatever the error: a full disk is NOT_COORDINATOR, too, and the broker may
        # lead on. Kafka takes any other error for the end of its leadership, which a full disk is there.
        if error is not ErrorCode.NONE and ended.is_open():
            with self._lock:
                self._waiting += 1
            self._scheduler.schedule("transaction-completion", lambda: self._again(ended), delay_ms=RETRY_MS)

    def _again(self, ended: EndedTransaction) -> None:
        with self._lock:
            self._waiting -= 1
        self.markers_written(ended)
        self._actions.run_all()


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
        self._thread = InterBrokerSendThread(addresses, self._turn, name, RETRY_MS)
        self._retry_at_ms = 0
        self._to_send: list[MarkerRequest] = []

    def start(self) -> None:
        """Begin to send. Transactions that were added before are sent now."""
        self._thread.start()

    def shutdown(self) -> None:
        """Stop sending, and wait for the thread. Markers that are not written are written after the next start."""
        self._thread.shutdown()

    def add(self, transaction: EndedTransaction) -> None:
        """Have the markers of a transaction written."""
        self._thread.add(transaction)

    # -- the thread

    def _turn(self, client: NetworkClient, added: deque[EndedTransaction]) -> None:
        """Send what can be sent, and wait for an answer or for more."""
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
            client.new_request(request.node_id, request.message, versions=_VERSIONS, callback=answered), client.now_ms()
        )
        return True

    def _pause(self, client: NetworkClient) -> None:
        self._retry_at_ms = client.now_ms() + RETRY_MS
