"""A session with ZooKeeper, through kazoo: the store of a cluster of several brokers.

Made and closed by `broker`; given to `KafkaZkClient`. A call runs on its caller's thread, which sends its batch
pipelined and waits for the answers. kazoo's thread of the connection reads the answers, keeps the table of watches and
learns of lost connections; it never waits. The thread `store-watch` calls watches and session listeners, in order, so
that they may use the store. `_lock` guards the table of watches and the state of the session, for moments.

What happens when the connection is lost:

    lost            requests without an answer are sent again when there is a connection: their callers wait
    same session    the watches are set again (SetWatches); those that missed their change fire
    broker stops    calls that have waited fail, and later ones do not wait (`stop_waiting`)
    session expired calls fail from now on, those that wait too; the listeners get EXPIRED, and the controller resigns;
                    then calls are possible, and the listeners get RECONNECTED: the broker registers again

A write whose answer was lost may have been applied, so that its second attempt finds the znode created, or changed:
KafkaZkClient looks whether the writer was its own session, where that matters, as Kafka's does.

Kafka: kafka.zookeeper.ZooKeeperClient, KafkaZkClient.retryRequestsUntilConnected.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, Final, NamedTuple

from kazoo.exceptions import AuthFailedError, ConnectionClosedError, ConnectionLoss, SessionExpiredError
from kazoo.protocol.states import KazooState, WatchedEvent

from barnabas.zk.store.errors import NodeExistsError, StoreError, StoreUnavailableError
from barnabas.zk.store.store import (
    Create,
    Exists,
    GetChildren,
    GetData,
    Operation,
    Outcome,
    SessionListener,
    SessionState,
    Store,
    Watch,
    WatchEvent,
    WatchEventType,
)
from barnabas.zk.store.watches import WatchDelivery
from barnabas.zk.zookeeper.zookeeper_config import ZookeeperConfig
from barnabas.zk.zookeeper.zookeeper_connection import LOGGER_NAME, FirstConnection, new_client
from barnabas.zk.zookeeper.zookeeper_metrics import ZookeeperMetrics
from barnabas.zk.zookeeper.zookeeper_requests import absolute_path, outcome_of, request_of, set_watches

logger = logging.getLogger(__name__)

_EVENTS: Final = {
    "CREATED": WatchEventType.CREATED,
    "DELETED": WatchEventType.DELETED,
    "CHANGED": WatchEventType.DATA_CHANGED,
    "CHILD": WatchEventType.CHILDREN_CHANGED,
}
_DATA_KINDS: Final = (GetData, Exists)
_FIRED_BY: Final = {
    WatchEventType.CREATED: _DATA_KINDS,
    WatchEventType.DATA_CHANGED: _DATA_KINDS,
    WatchEventType.DELETED: (*_DATA_KINDS, GetChildren),
    WatchEventType.CHILDREN_CHANGED: (GetChildren,),
}


class ZookeeperStore(Store):
    """One session with ZooKeeper, and those that follow it after an expiry."""

    def __init__(self, config: ZookeeperConfig, metrics: ZookeeperMetrics | None = None) -> None:
        """metrics: count what happens to the session. Raises ConfigError: a key store for TLS, or the login, cannot be
        used."""
        self._config = config
        self._metrics = ZookeeperMetrics(time.monotonic_ns) if metrics is None else metrics
        self._first_connection = FirstConnection()
        self._client = new_client(config, self._first_connection)
        self._client.add_listener(self._on_connection_state)
        self._lock = threading.Lock()
        self._watches = _WatchesSet()
        self._session_id = 0
        self._last_zxid = 0
        self._listeners: tuple[SessionListener, ...] = ()
        # Set while callers may send, and when they must not wait: after an expiry, for good by `stop_waiting`, `close`.
        self._need_not_wait = threading.Event()
        self._may_wait = True
        self._is_connected = False
        self._is_expired = False
        self._expiries = 0
        self._is_closed = False
        self._room = threading.Semaphore(config.max_in_flight)
        # Without the lock: an answer that kazoo gives inside `_call` is taken out under it. Both changes are atomic.
        self._unanswered: set[_Answer] = set()
        self._deliveries = WatchDelivery()

    def start(self) -> None:
        """Connect, log in, and create the chroot. Raises StoreUnavailableError: no ZooKeeper lets us in in time."""
        config = self._config
        # Of kazoo's own lines only those about lost connections interest an operator.
        logging.getLogger(LOGGER_NAME).setLevel(logging.WARNING)
        self._client.start_async()
        if not self._first_connection.wait(config.connection_timeout_ms / 1_000):
            self._client.stop()
            self._client.close()
            raise StoreUnavailableError(config.servers, self._why_not_connected())
        self._deliveries.start()
        if config.chroot:
            self._create_chroot()

    def _why_not_connected(self) -> str:
        first = self._first_connection
        if first.is_refused:
            return f"cannot be used: {first.reasons}"
        text = (
            f"cannot be reached: no ZooKeeper answered within {self._config.connection_timeout_ms} ms "
            "(zookeeper.connect, zookeeper.connection.timeout.ms). For a broker that stands alone, set "
            "metadata.store=embedded"
        )
        return f"{text}. Last: {first.reasons}" if first.reasons else text

    @property
    def session_id(self) -> int:
        """The id of the current session, which changes at an expiry."""
        return self._session_id

    def submit(self, operations: Sequence[Operation]) -> Future[list[Outcome]]:
        """Apply a batch on the calling thread, which waits for its answers; the future is done."""
        future: Future[list[Outcome]] = Future()
        try:
            future.set_result(self._apply(operations, self._config.chroot))
        except StoreUnavailableError as error:
            future.set_exception(error)
        return future

    def add_session_listener(self, listener: SessionListener) -> None:
        """Call `listener` on the thread `store-watch` when the session has expired and there is a new one."""
        self._listeners = (*self._listeners, listener)

    def stop_waiting(self) -> bool:
        """Have no call wait for a connection from now on. Return whether there is one."""
        with self._lock:
            self._may_wait = False
            self._need_not_wait.set()
            is_connected = self._is_connected
        if not is_connected:
            self._give_up()
        return is_connected

    def _give_up(self) -> None:
        """Fail the requests without an answer.

        kazoo keeps a request that came when the connection was just lost, to send it over the next one.
        """
        for answer in list(self._unanswered):
            answer.set_exception(SessionExpiredError())

    def close(self) -> None:
        """End the session: its ephemeral znodes go. A second call does nothing."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            self._watches = _WatchesSet()
            self._deliveries.drop()
        self._need_not_wait.set()
        self._client.stop()
        self._client.close()
        self._deliveries.close()

    # -- on the callers' threads

    def _create_chroot(self) -> None:
        parts = self._config.chroot[1:].split("/")
        paths = ["/" + "/".join(parts[:depth]) for depth in range(1, len(parts) + 1)]
        for outcome in self._apply([Create(path) for path in paths], chroot=""):
            if isinstance(outcome, StoreError) and not isinstance(outcome, NodeExistsError):
                raise outcome

    def _apply(self, operations: Sequence[Operation], chroot: str) -> list[Outcome]:
        """Send operations until each one has an answer.

        Raises StoreUnavailableError: the store was closed, the session in which the batch began has expired, or a
        connection is missing and no call may wait for one.
        """
        answers: dict[int, Any] = {}
        unanswered = list(range(len(operations)))
        with self._lock:
            expiries = self._expiries
        while unanswered:
            self._need_not_wait.wait()
            answers |= self._exchange(operations, unanswered, chroot, expiries)
            unanswered = [index for index in unanswered if isinstance(answers[index], ConnectionLoss)]
            for index in unanswered:
                logger.debug("Sending again: %s", operations[index])
            for answer in answers.values():
                if isinstance(answer, ConnectionClosedError | AuthFailedError | SessionExpiredError):
                    raise StoreUnavailableError("", "the session with ZooKeeper is closed, lost or has expired")
        return [
            answer if isinstance(answer, StoreError) else outcome_of(operation, answer, chroot)
            for operation, answer in zip(operations, (answers[index] for index in range(len(operations))), strict=True)
        ]

    def _exchange(
        self, operations: Sequence[Operation], indexes: Sequence[int], chroot: str, expiries: int
    ) -> dict[int, Any]:
        """Send operations, pipelined, and wait for all their answers. Returns them by index, exceptions in place.

        expiries: how many sessions had expired when the batch began; it is sent in that session and in no other.
        """
        round_ = _Round(len(indexes))
        for index in indexes:
            operation = operations[index]
            try:
                request = request_of(operation, chroot, self._on_event, is_secure=self._config.has_acls)
            except StoreError as error:
                round_.put(index, error)
                continue
            self._room.acquire()
            answer = _Answer(self, round_, index, operation, self._metrics.now_ns())
            with self._lock:
                may_send = not (self._is_closed or self._is_expired or self._expiries != expiries) and (
                    self._is_connected or self._may_wait
                )
                if may_send:
                    # Under the lock: at an expiry kazoo drops what is queued after its call of `_on_connection_state`.
                    # kazoo's own calls hand answers to a thread of their own, after the connection's thread may have
                    # read the event of the watch: the table of watches could not be kept in the order of the wire.
                    self._unanswered.add(answer)
                    self._client._call(request, answer)  # noqa: SLF001
            if not may_send:
                answer.set_exception(SessionExpiredError())
        return round_.wait()

    # -- on the thread of kazoo's connection

    def answered(self, place: _Answer, operation: Operation, answer: Any) -> None:
        """Make room for the next request, and remember the watch that ZooKeeper has set."""
        self._unanswered.discard(place)
        self._room.release()
        self._metrics.answered(place.sent_ns)
        if isinstance(answer, Exception) or not isinstance(operation, GetData | Exists | GetChildren):
            return
        if operation.watch is not None:
            # An Exists of a znode that is not there waits for its creation; all others wait for a change of it.
            kind = GetData if isinstance(operation, Exists) and answer is not None else type(operation)
            with self._lock:
                self._watches.add(kind, absolute_path(self._config.chroot, operation.path), operation.watch)

    def _on_connection_state(self, state: str) -> None:
        self._metrics.came_into(self._client.client_state, has_login=self._config.user is not None)
        if state == KazooState.CONNECTED:
            self._on_connected(self._client.client_id[0])
            return
        self._last_zxid = self._client.last_zxid
        with self._lock:
            self._is_connected = False
            if state == KazooState.LOST and self._session_id:
                self._is_expired = True
                self._expiries += 1
                self._watches = _WatchesSet()
                # They fail at once, and do not wait for the listeners, which may be waiting for one of them to end.
                self._need_not_wait.set()
            elif self._may_wait and not (self._is_closed or self._is_expired):
                self._need_not_wait.clear()
            may_wait = self._may_wait
        if not may_wait:
            self._give_up()

    def _on_connected(self, session_id: int) -> None:
        with self._lock:
            former, self._session_id = self._session_id, session_id
            self._is_connected = True
            expiries = self._expiries
            if not self._is_expired:
                self._need_not_wait.set()
        if former == session_id:
            self._set_watches_again()
        elif former:
            logger.warning("The session 0x%x with ZooKeeper has expired; the new one is 0x%x", former, session_id)
            self._deliveries.notify(self._listeners, SessionState.EXPIRED)
            self._deliveries.put(partial(self._allow_calls, expiries))
            self._deliveries.notify(self._listeners, SessionState.RECONNECTED)

    def _set_watches_again(self) -> None:
        client = self._client
        with self._lock:
            data, exists, children = (self._watches.paths(kind) for kind in (GetData, Exists, GetChildren))
        # kazoo has dropped its watchers, and would ignore the events. This is the thread that changes its tables.
        for path in (*data, *exists):
            client._data_watchers[path].add(self._on_event)  # noqa: SLF001
        for path in children:
            client._child_watchers[path].add(self._on_event)  # noqa: SLF001
        for request in set_watches(self._last_zxid, data, exists, children):
            client._call(request, _Ignored())  # noqa: SLF001

    # -- on kazoo's thread of watches

    def _on_event(self, event: WatchedEvent) -> None:
        event_type = _EVENTS.get(event.type)
        if event_type is None:
            return  # the connection is lost, and the watches stay set
        with self._lock:
            fired = self._watches.take(event_type, event.path)
        path = event.path[len(self._config.chroot) :] or "/"
        for watch in fired:
            self._deliveries.put(partial(watch, WatchEvent(event_type, path)))

    # -- thread `store-watch`

    def _allow_calls(self, expiries: int) -> None:
        with self._lock:
            if self._expiries != expiries:
                return  # this session has expired as well, which its listeners have not heard yet
            self._is_expired = False
            if self._may_wait and not (self._is_connected or self._is_closed):
                self._need_not_wait.clear()


class _WatchesSet:
    """The watches that ZooKeeper has set, by the request that asked for them, and by path."""

    def __init__(self) -> None:
        # A dict for its order: watches fire in the order in which they were set.
        self._by_kind: dict[type, dict[str, dict[Watch, None]]] = {GetData: {}, Exists: {}, GetChildren: {}}

    def add(self, kind: type, path: str, watch: Watch) -> None:
        self._by_kind[kind].setdefault(path, {})[watch] = None

    def paths(self, kind: type) -> list[str]:
        return list(self._by_kind[kind])

    def take(self, event_type: WatchEventType, path: str) -> list[Watch]:
        fired: dict[Watch, None] = {}
        for kind in _FIRED_BY[event_type]:
            fired |= self._by_kind[kind].pop(path, {})
        return list(fired)


class _Round:
    """The answers to the requests that one caller has sent, and the wait for the last of them."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._answers: queue.SimpleQueue[_Indexed] = queue.SimpleQueue()

    def put(self, index: int, answer: Any) -> None:
        self._answers.put(_Indexed(index, answer))

    def wait(self) -> dict[int, Any]:
        taken = (self._answers.get() for _ in range(self._count))
        return {each.place: each.answer for each in taken}


class _Indexed(NamedTuple):
    place: int
    answer: Any


class _Answer:
    """The place for one answer, in the form in which kazoo calls it. The first one counts."""

    def __init__(self, store: ZookeeperStore, round_: _Round, index: int, operation: Operation, sent_ns: int) -> None:
        self.sent_ns = sent_ns
        self._store = store
        self._round = round_
        self._index = index
        self._operation = operation
        # kazoo may say twice that a connection is closed, on two threads.
        self._given = threading.Lock()

    def set(self, answer: Any) -> None:
        """Take the answer of ZooKeeper; the last one of a round ends its wait."""
        if self._given.acquire(blocking=False):
            self._store.answered(self, self._operation, answer)
            self._round.put(self._index, answer)

    def set_exception(self, error: Exception) -> None:
        """Take the error in place of an answer."""
        self.set(error)


class _Ignored:
    """The place for an answer that no caller needs: a failed SetWatches is repeated at the next connection."""

    def set(self, _answer: Any) -> None:
        """Do nothing."""

    def set_exception(self, error: Exception) -> None:
        """Log the error."""
        logger.info("The watches in ZooKeeper could not be set again: %r", error)
