"""The connection to a group's coordinator: finds it, sends calls in order, loses it and finds it again.

Two threads meet here. The channel's own, `kafka-coordinator-heartbeat-thread | <group>`, does the network and nothing
else: it owns the NetworkClient and runs `run_once` until the channel is closed. The user's thread queues calls and
waits for them in its own network client. So a member sends heartbeats while its user is busy, and the user's fetches
and the group's requests never wait for each other's locks or connections.

A commit, from the user's thread and back:

    user's thread                          channel's thread
    with channel.lock:                     (asleep in its poll of the network)
        channel.send(call)   queue it
    channel.wakeup()         ------------> poll returns
    client.poll(...)  sleeps               with lock: the member's duties; no coordinator is known:
                                               FindCoordinator to any node
                                           poll: sends it, reads the answer into `_answers`
                                           with lock: lookup.handle_answer -> the node is known
                                           with lock: connected? then the call leaves the queue, OffsetCommit
                                           poll: sends it, reads the answer
                                           with lock: call.handle(body) -> call.result, call.done
    poll returns             <------------ on_progress() wakes the user's network client
    with channel.lock:
        call.done: look at call.result

Three rules keep this simple:
- `lock` guards the queue, the coordinator's address and everything of the group that both threads touch (the member's
  session, OffsetCommits). It is held for moments: never during a poll of the network, never while a callback of the
  user runs. No other lock is taken under it but the metadata's condition, for moments.
- Whatever handles an answer runs on the channel's thread and holds the lock, because it changes the membership. The
  callbacks that the network client calls only collect answers in `_answers`, which no other thread reads.
- The calls of one group leave in the order in which they were queued, over one connection. The coordinator therefore
  sees a commit before the JoinGroup or LeaveGroup that follows.

A lost connection fails the calls that are on their way (Disconnected, which their makers retry); the calls that wait
stay in the queue until the coordinator is found, or until their deadline.

Kafka: ConsumerNetworkClient, and the heartbeat thread of AbstractCoordinator.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from barnabas.clients.consumer.group.config import GroupRebalanceConfig
from barnabas.clients.consumer.group.coordinator_lookup import CoordinatorLookup
from barnabas.clients.consumer.group.coordinator_metrics import CoordinatorMetrics
from barnabas.clients.errors import ClientClosed, ClientTimeout, Disconnected
from barnabas.protocol.messages.offsets import OffsetCommitRequest
from barnabas.rpc.client_request import ClientResponse, RequestBuilder
from barnabas.rpc.connection_states import ExponentialBackoff, Node
from barnabas.rpc.metadata_updater import FOREVER_MS
from barnabas.rpc.network_client import NetworkClient
from barnabas.rpc.network_counters import NetworkCounters

logger = logging.getLogger(__name__)


class CoordinatorCall:
    """A request to the coordinator, and its result or error once it is `done`. Guarded by the channel's lock.

    Made by the sessions of both protocols and OffsetCommits, on either thread of the consumer. Kafka: RequestFuture.
    handle(body): reads the answer on the channel's thread under the lock. Its return value becomes `result`, what it
    raises becomes `error`. deadline_ms: when the call fails if the coordinator was not found by then. leaves_group:
    whether the request ends the membership.
    """

    __slots__ = (
        "builder",
        "deadline_ms",
        "done",
        "error",
        "handle",
        "is_awaited_at_close",
        "node",
        "on_done",
        "request",
        "result",
        "sent_ms",
        "timeout_ms",
    )

    def __init__(
        self,
        builder: RequestBuilder,
        handle: Callable[[Any], Any],
        deadline_ms: int,
        *,
        timeout_ms: int | None = None,
        on_done: Callable[[CoordinatorCall], None] | None = None,
        leaves_group: bool = False,
    ) -> None:
        self.builder = builder
        self.request = builder.message_class
        self.handle = handle
        self.deadline_ms = deadline_ms
        self.timeout_ms = timeout_ms
        self.on_done = on_done
        self.node: Node | None = None
        self.sent_ms = 0
        self.done = False
        self.result: Any = None
        self.error: Exception | None = None
        self.is_awaited_at_close = leaves_group or builder.message_class is OffsetCommitRequest
        """Whether a consumer that closes waits for the answer, because the request still matters to the group."""

    def finish(self, result: Any = None, error: Exception | None = None) -> None:
        """Set the result or the error, and call `on_done`. Called once, under the lock."""
        self.done, self.result, self.error = True, result, error
        if self.on_done is not None:
            self.on_done(self)


_LONGEST_POLL_MS = 60_000
_CLOSED = "This consumer has already been closed."


class ChannelUser(Protocol):
    """The owner of a channel: a member's session. The channel's thread calls both methods, under the lock."""

    def perform_duties(self, now_ms: int) -> int:
        """Do what is due. Returns the milliseconds until the next duty."""

    def coordinator_found(self, now_ms: int) -> None:
        """Take note that the coordinator is known now."""


class _Answer(NamedTuple):
    """A response of the network. Without a `call`, the response answers the look-up of the coordinator."""

    call: CoordinatorCall | None
    response: ClientResponse


class CoordinatorChannel:
    """A queue of calls and the thread that sends them. The channel's thread owns `network` from `start` on.

    `metrics`, of the calls and of the member that makes them, is guarded by the lock.
    """

    def __init__(
        self,
        config: GroupRebalanceConfig,
        network: NetworkClient,
        backoff: ExponentialBackoff,
        on_progress: Callable[[], None],
    ) -> None:
        self.lock = threading.Lock()
        self.metrics = CoordinatorMetrics()
        self._config = config
        self._network = network
        self._lookup = CoordinatorLookup(config, network, backoff)
        self._backoff = backoff
        self._on_progress = on_progress
        self._user: ChannelUser | None = None
        self._waiting: deque[CoordinatorCall] = deque()
        self._awaited_in_flight = 0
        self._answers: list[_Answer] = []
        """The answers of the last poll. Only the channel's thread reads and writes them."""
        self._closing_until_ms: int | None = None
        self._thread: threading.Thread | None = None

    # -- the user's thread

    def with_obstacle(self, text: str) -> str:
        """Return the text of a call that timed out with the reason why the coordinator is not found, if it is not."""
        reason = self._lookup.reason
        return f"{text}: {reason}" if reason else text

    def start(self, user: ChannelUser) -> None:
        """Start the thread, unless it runs."""
        with self.lock:
            self._user = user
            if self._thread is not None:
                return
            self._thread = threading.Thread(
                target=self._run, name=f"kafka-coordinator-heartbeat-thread | {self._config.group_id}", daemon=True
            )
        # Started without the lock, because the new thread takes the lock before anything else.
        self._thread.start()

    def forked(self, network: NetworkClient) -> None:
        """Take new connections, in a forked child of the process that made the channel and did not start it."""
        self._network = network
        self._lookup = CoordinatorLookup(self._config, network, self._backoff)

    @property
    def network_counters(self) -> NetworkCounters:
        """The counters of the channel's network client. Any thread may read them."""
        return self._network.counters

    @property
    def has_started(self) -> bool:
        """Whether the thread was started."""
        return self._thread is not None

    def wakeup(self) -> None:
        """Have the thread look at the queue again. Any thread may call it."""
        self._network.wakeup()

    def now_ms(self) -> int:
        """Return the monotonic time in milliseconds."""
        return self._network.now_ms()

    def close(self, timeout_ms: int) -> None:
        """Send the commits and the LeaveGroup that wait, await their answers for `timeout_ms`, then end the thread.

        All other calls that wait fail with ClientClosed. Idempotent.
        """
        with self.lock:
            if self._closing_until_ms is None:
                self._closing_until_ms = self.now_ms() + timeout_ms
                for call in [each for each in self._waiting if not each.is_awaited_at_close]:
                    self.withdraw(call)
                    call.finish(error=ClientClosed(_CLOSED))
            thread = self._thread
        self._network.wakeup()
        if thread is None:
            self._network.close()
        # A thread cannot join itself.
        elif thread is not threading.current_thread():
            thread.join(timeout_ms / 1000 + 1)

    # -- under the lock, any thread

    def send(self, call: CoordinatorCall) -> None:
        """Queue a call. A caller on the user's thread calls `wakeup` afterwards, without the lock."""
        if self._closing_until_ms is not None:
            call.finish(error=ClientClosed(_CLOSED))
        else:
            self._waiting.append(call)

    def send_last(self, call: CoordinatorCall) -> bool:
        """Queue a call that makes sense only if the coordinator is known. Returns False if it was dropped."""
        if self._lookup.node is None:
            return False
        self.send(call)
        return True

    def withdraw(self, call: CoordinatorCall) -> bool:
        """Drop a call that has not been sent, without finishing it. Returns False if the call was sent already."""
        if call not in self._waiting:
            return False
        self._waiting.remove(call)
        return True

    @property
    def coordinator(self) -> Node | None:
        """The coordinator, or None while it is not known."""
        return self._lookup.node

    def want_coordinator(self) -> None:
        """Look for the coordinator, even if no call waits."""
        self._lookup.is_wanted = True

    def forget_coordinator(self, reason: str) -> None:
        """Drop the coordinator, because another node has the group or this one cannot be reached.

        Called on the channel's thread.
        """
        self._lookup.forget(reason)

    # -- the channel's thread

    def _run(self) -> None:
        logger.debug("Heartbeat thread started")
        while self._is_running():
            try:
                self.run_once()
            except Exception:  # the thread must survive whatever one turn meets
                logger.exception("Uncaught error in the coordinator's heartbeat thread")
                self._network.poll(self._config.retry_backoff_ms, self.now_ms())
        with self.lock:
            for call in self._waiting:
                call.finish(error=ClientClosed(_CLOSED))
            self._waiting.clear()
        self._network.close()
        self._on_progress()
        logger.debug("Heartbeat thread has closed")

    def _is_running(self) -> bool:
        with self.lock:
            if self._closing_until_ms is None:
                return True
            # Fetches of offsets and heartbeats in flight are not waited for: a closed consumer has no use for them.
            is_idle = not self._waiting and not self._awaited_in_flight
            return not is_idle and self.now_ms() < self._closing_until_ms

    def run_once(self) -> None:
        """Take one turn: perform the duties that are due, send the calls that can be sent, handle the answers."""
        with self.lock:
            now_ms = self.now_ms()
            wait_ms = min(self._send_waiting(now_ms, self._perform_duties(now_ms)), _LONGEST_POLL_MS)
            if self._closing_until_ms is not None:
                wait_ms = min(wait_ms, max(self._closing_until_ms - now_ms, 0))
        # The poll may sleep, so it runs without the lock. A call that is queued during it comes with a `wakeup`.
        self._network.poll(wait_ms, now_ms)
        if self._answers:
            # One lock for all answers of a poll, so that the user's thread never sees half of them.
            with self.lock:
                answers, self._answers = self._answers, []
                for call, response in answers:
                    if call is None:
                        self._handle_lookup(response)
                    else:
                        self._handle_answer(call, response)
            self._on_progress()

    def _perform_duties(self, now_ms: int) -> int:
        if self._user is None or self._closing_until_ms is not None:
            return FOREVER_MS
        return self._user.perform_duties(now_ms)

    def _send_waiting(self, now_ms: int, wait_ms: int) -> int:
        """Send the calls that can be sent. Returns the milliseconds until there is more to do, answers aside."""
        self._expire(now_ms)
        if self._waiting:
            wait_ms = min(wait_ms, min(call.deadline_ms for call in self._waiting) - now_ms)
        if not self._waiting and not self._lookup.is_wanted:
            return max(wait_ms, 0)
        if self._lookup.node is not None and self._network.connection_failed(self._lookup.node, now_ms):
            self._lookup.forget("coordinator unavailable")
        node = self._lookup.node
        if node is None:
            return max(min(wait_ms, self._lookup.ask(now_ms, self._collect_lookup)), 0)
        if self._network.ready(node, now_ms):
            self._lookup.is_wanted = False
            # One call at a time: `can_send_request` is true again when this one has left, and that ends the poll.
            while self._waiting and self._network.can_send_request(node.id, now_ms):
                self._send_to(node, self._waiting.popleft(), now_ms)
            return max(wait_ms, 0)
        delay_ms = self._network.poll_delay_ms(node, now_ms)
        return max(min(wait_ms, FOREVER_MS if delay_ms is None else delay_ms), 0)

    def _expire(self, now_ms: int) -> None:
        expired = [call for call in self._waiting if call.deadline_ms <= now_ms]
        for call in expired:
            self._waiting.remove(call)
            text = f"The coordinator of group {self._config.group_id} was not found in time"
            call.finish(error=ClientTimeout(self.with_obstacle(text)))
        if expired:
            self._on_progress()

    def _send_to(self, node: Node, call: CoordinatorCall, now_ms: int) -> None:
        call.node, call.sent_ms = node, now_ms
        self.metrics.sent(call.request, now_ms)
        request = self._network.new_request(
            node.id,
            call.builder,
            timeout_ms=call.timeout_ms,
            callback=lambda response: self._answers.append(_Answer(call, response)),
        )
        try:
            self._network.send(request, now_ms)
        except Exception as error:  # noqa: BLE001 - the user must learn why a request cannot be written
            call.finish(error=error)
            self._on_progress()
        else:
            self._awaited_in_flight += call.is_awaited_at_close

    # -- answers: the channel's thread, under the lock

    def _collect_lookup(self, response: ClientResponse) -> None:
        self._answers.append(_Answer(None, response))

    def _handle_lookup(self, response: ClientResponse) -> None:
        error = self._lookup.handle_answer(response)
        if error is not None:
            failed, self._waiting = self._waiting, deque()
            for call in failed:
                call.finish(error=error)
        elif self._lookup.node is not None and self._user is not None:
            self._user.coordinator_found(response.received_ms)

    def _handle_answer(self, call: CoordinatorCall, response: ClientResponse) -> None:
        self._awaited_in_flight -= call.is_awaited_at_close
        if response.version_error is not None:
            call.finish(error=response.version_error)
        elif response.body is None:
            # A call to an earlier coordinator must not make the channel drop the one that it has found since.
            if call.node is self._lookup.node:
                self._lookup.forget("disconnected")
            call.finish(error=Disconnected(f"Lost the connection to the group coordinator {call.node}"))
        else:
            try:
                call.finish(call.handle(response.body))
            except Exception as error:  # noqa: BLE001 - the maker of the call must learn of every failure
                call.finish(error=error)
            latency_ms = response.received_ms - call.sent_ms
            self.metrics.answered(call.request, latency_ms, response.received_ms, has_failed=call.error is not None)
