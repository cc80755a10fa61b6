"""The connection to a group's coordinator: finds it, sends calls in order, loses it and finds it again.

A thread of its own, `kafka-coordinator-heartbeat-thread | <group>`, does the network and nothing else: it owns the
NetworkClient, and runs `run_once` until the channel is closed. So a member sends heartbeats while its user is busy,
and the user's fetches and the group's requests never wait for one another's locks or connections.

`lock` guards the queue of calls, the coordinator's address, and everything of the group that both threads touch
(MemberSession, OffsetCommits). It is held for moments only: never during a poll of the network, never while a callback
of the user runs. The handler of a call's answer, and the member's periodic duties, run on the channel's thread and hold
it. The user's thread sleeps in its own network client; whenever an answer was handled, `on_progress` wakes that.

No other lock is taken under it, but the metadata's condition, for moments.

Kafka: the coordinator look-up and the heartbeat thread of AbstractCoordinator, and ConsumerNetworkClient, whose lock
both threads share there.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from barnabas.clients.cluster_metadata import ClusterMetadata
from barnabas.clients.consumer.group.config import GroupRebalanceConfig
from barnabas.clients.consumer.group.coordinator_answers import Reaction, reaction_to
from barnabas.clients.consumer.group.requests import RequestTerms, find_coordinator
from barnabas.clients.errors import ClientClosed, ClientTimeout, Disconnected, error_of
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.classic_groups import LeaveGroupRequest
from barnabas.protocol.messages.find_coordinator import FindCoordinatorResponse
from barnabas.protocol.messages.message import Message
from barnabas.protocol.messages.offsets import OffsetCommitRequest
from barnabas.rpc.client_request import ClientResponse
from barnabas.rpc.exponential_backoff import ExponentialBackoff
from barnabas.rpc.metadata_updater import FOREVER_MS
from barnabas.rpc.network_client import NetworkClient
from barnabas.rpc.node import Node

logger = logging.getLogger(__name__)

_LONGEST_POLL_MS = 60_000
_AWAITED_AT_CLOSE = (OffsetCommitRequest, LeaveGroupRequest)
"""What still matters to the group when the consumer has gone."""


class CoordinatorCall:
    """A request to the coordinator, and what came of it. Its fields are guarded by the channel's lock.

    handle(body): reads the answer on the channel's thread under the lock; returns `result`, or raises what becomes
    `error`. deadline_ms: when it fails if the coordinator was not found by then.
    """

    __slots__ = ("deadline_ms", "done", "error", "handle", "node", "on_done", "result", "terms", "timeout_ms")

    def __init__(
        self,
        terms: RequestTerms,
        handle: Callable[[Any], Any],
        deadline_ms: int,
        *,
        timeout_ms: int | None = None,
        on_done: Callable[[CoordinatorCall], None] | None = None,
    ) -> None:
        self.terms = terms
        self.handle = handle
        self.deadline_ms = deadline_ms
        self.timeout_ms = timeout_ms
        self.on_done = on_done
        self.node: Node | None = None
        self.done = False
        self.result: Any = None
        self.error: Exception | None = None

    @property
    def is_awaited_at_close(self) -> bool:
        """Whether a close waits for the answer."""
        return issubclass(self.terms.message_class, _AWAITED_AT_CLOSE)

    def finish(self, result: Any = None, error: Exception | None = None) -> None:
        """Once; under the lock."""
        self.done, self.result, self.error = True, result, error
        if self.on_done is not None:
            self.on_done(self)


class ChannelUser(Protocol):
    """Whom the channel belongs to (MemberSession). Both run on the channel's thread, under the lock."""

    def perform_duties(self, now_ms: int) -> int:
        """Do what is due; milliseconds until something else is."""

    def coordinator_found(self, now_ms: int) -> None:
        """There is a coordinator."""


class SharedNodes:
    """A MetadataUpdater that asks for nothing: its nodes are those that the consumer's own client knows."""

    def __init__(self, metadata: ClusterMetadata) -> None:
        self._metadata = metadata

    def nodes(self) -> Sequence[Node]:
        """See MetadataUpdater."""
        return tuple(self._metadata.cluster.nodes.values())

    def is_update_due(self, now_ms: int) -> bool:
        """Never here."""
        return False

    def maybe_update(self, client: NetworkClient, now_ms: int) -> int:
        """The consumer's own client updates."""
        return FOREVER_MS

    def handle_disconnect(self, node_id: int, now_ms: int) -> None:
        """What is known may be out of date."""
        self._metadata.request_update()

    def handle_failed_request(self, now_ms: int, error: Exception | None) -> None:
        """No request of this updater exists."""

    def handle_response(self, body: Message, now_ms: int) -> None:
        """No request of this updater exists."""


class CoordinatorChannel:
    """See the module's text. `network` is owned by the channel's thread from `start` on."""

    def __init__(
        self,
        config: GroupRebalanceConfig,
        network: NetworkClient,
        backoff: ExponentialBackoff,
        on_progress: Callable[[], None],
    ) -> None:
        self.lock = threading.Lock()
        self._config = config
        self._network = network
        self._backoff = backoff
        self._on_progress = on_progress
        self._user: ChannelUser | None = None
        self._waiting: deque[CoordinatorCall] = deque()
        self._awaited_in_flight = 0
        self._coordinator: Node | None = None
        self._looking_up = False
        self._failed_lookups = 0
        self._next_lookup_ms = 0
        self._wanted = False
        self._answers: list[tuple[CoordinatorCall | None, ClientResponse]] = []
        """What the last poll brought: the channel's thread alone."""
        self._closing_until_ms: int | None = None
        self._thread: threading.Thread | None = None

    # -- the user's thread -------------------------------------------------------------------------------------------

    def start(self, user: ChannelUser) -> None:
        """Start the thread, unless it runs."""
        with self.lock:
            self._user = user
            if self._thread is not None:
                return
            self._thread = threading.Thread(
                target=self._run, name=f"kafka-coordinator-heartbeat-thread | {self._config.group_id}", daemon=True
            )
        self._thread.start()

    def forked(self, network: NetworkClient) -> None:
        """A child of the process that made the channel, which was not started: the parent's network is not touched."""
        self._network = network

    @property
    def has_started(self) -> bool:
        """Whether there is a thread."""
        return self._thread is not None

    def wakeup(self) -> None:
        """Have the thread look again; any thread may call it."""
        self._network.wakeup()

    def now_ms(self) -> int:
        """Monotonic milliseconds."""
        return self._network.now_ms()

    def close(self, timeout_ms: int) -> None:
        """Send the commits and LeaveGroup that wait, and await their answers, for so long at most; then end the thread.

        What else waits is dropped: nobody is there any more to join, say. Idempotent.
        """
        with self.lock:
            if self._closing_until_ms is None:
                self._closing_until_ms = self.now_ms() + timeout_ms
                for call in [each for each in self._waiting if not each.is_awaited_at_close]:
                    self.withdraw(call)
                    call.finish(error=ClientClosed("This consumer has already been closed."))
            thread = self._thread
        self._network.wakeup()
        if thread is None:
            self._network.close()
        elif thread is not threading.current_thread():
            thread.join(timeout_ms / 1000 + 1)

    # -- under the lock, any thread ----------------------------------------------------------------------------------

    def send(self, call: CoordinatorCall) -> None:
        """Queue a call. Under the lock; `wakeup` afterwards if this is not the channel's thread."""
        if self._closing_until_ms is not None:
            call.finish(error=ClientClosed("This consumer has already been closed."))
        else:
            self._waiting.append(call)

    def send_last(self, call: CoordinatorCall) -> bool:
        """Queue a call that makes sense only if the coordinator is known; else drop it. Under the lock."""
        if self._coordinator is None:
            return False
        self.send(call)
        return True

    def withdraw(self, call: CoordinatorCall) -> None:
        """Drop a call that has not been sent; who made it does not want to hear of it. Under the lock."""
        if call in self._waiting:
            self._waiting.remove(call)

    @property
    def coordinator(self) -> Node | None:
        """Who coordinates, as far as is known."""
        return self._coordinator

    def want_coordinator(self) -> None:
        """Look for the coordinator, even if no call waits."""
        self._wanted = True

    def forget_coordinator(self, reason: str) -> None:
        """It is not, or cannot be reached: on the channel's thread, under the lock. Calls on their way fail."""
        node = self._coordinator
        if node is None:
            return
        logger.info(
            "Group coordinator %s is unavailable or invalid due to cause: %s. Rediscovery follows.", node, reason
        )
        self._coordinator = None
        self._network.disconnect(node.id)

    # -- the channel's thread ----------------------------------------------------------------------------------------

    def _run(self) -> None:
        logger.debug("Heartbeat thread started")
        while self._is_running():
            try:
                self.run_once()
            except Exception:
                logger.exception("Uncaught error in the coordinator's heartbeat thread")
                self._network.poll(self._config.retry_backoff_ms, self.now_ms())
        with self.lock:
            for call in self._waiting:
                call.finish(error=ClientClosed("This consumer has already been closed."))
            self._waiting.clear()
        self._network.close()
        self._on_progress()
        logger.debug("Heartbeat thread has closed")

    def _is_running(self) -> bool:
        with self.lock:
            if self._closing_until_ms is None:
                return True
            is_idle = not self._waiting and not self._awaited_in_flight
            return not is_idle and self.now_ms() < self._closing_until_ms

    def run_once(self) -> None:
        """One turn: what is due, what can be sent, what is answered."""
        with self.lock:
            now_ms = self.now_ms()
            wait_ms = min(self._send_waiting(now_ms, self._perform_duties(now_ms)), _LONGEST_POLL_MS)
            if self._closing_until_ms is not None:
                wait_ms = min(wait_ms, max(self._closing_until_ms - now_ms, 0))
        self._network.poll(wait_ms, now_ms)
        if self._answers:
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
        """Send what can be sent; milliseconds until something changes that no event tells of."""
        self._expire(now_ms)
        if self._waiting:
            wait_ms = min(wait_ms, min(call.deadline_ms for call in self._waiting) - now_ms)
        if not self._waiting and not self._wanted:
            return max(wait_ms, 0)
        node = self._coordinator
        if node is not None and self._network.connection_failed(node, now_ms):
            self.forget_coordinator("coordinator unavailable")
            node = None
        if node is None:
            return max(min(wait_ms, self._look_up(now_ms)), 0)
        if self._network.ready(node, now_ms):
            self._wanted = False
            # One at a time: the next one is taken when this one has left, which ends the poll.
            while self._waiting and self._network.can_send_request(node.id, now_ms):
                self._send_to(node, self._waiting.popleft(), now_ms)
            return max(wait_ms, 0)
        delay_ms = self._network.poll_delay_ms(node, now_ms)
        return max(min(wait_ms, FOREVER_MS if delay_ms is None else delay_ms), 0)

    def _expire(self, now_ms: int) -> None:
        expired = [call for call in self._waiting if call.deadline_ms <= now_ms]
        for call in expired:
            self._waiting.remove(call)
            call.finish(error=ClientTimeout(f"The coordinator of group {self._config.group_id} was not found in time"))
        if expired:
            self._on_progress()

    def _send_to(self, node: Node, call: CoordinatorCall, now_ms: int) -> None:
        call.node = node
        request = self._network.new_request(
            node.id,
            call.terms.message_class,
            build=call.terms.build,
            versions=call.terms.versions,
            timeout_ms=call.timeout_ms,
            callback=lambda response: self._answers.append((call, response)),
        )
        try:
            self._network.send(request, now_ms)
        except Exception as error:  # noqa: BLE001 - what cannot be written, the user must hear of
            call.finish(error=error)
            self._on_progress()
        else:
            self._awaited_in_flight += call.is_awaited_at_close

    def _handle_answer(self, call: CoordinatorCall, response: ClientResponse) -> None:
        self._awaited_in_flight -= call.is_awaited_at_close
        if response.version_error is not None:
            call.finish(error=response.version_error)
        elif response.body is None:
            if call.node is self._coordinator:
                self.forget_coordinator("disconnected")
            call.finish(error=Disconnected(f"Lost the connection to the group coordinator {call.node}"))
        else:
            try:
                call.finish(call.handle(response.body))
            except Exception as error:  # noqa: BLE001 - whatever it is, whoever waits must hear of it
                call.finish(error=error)

    # -- finding the coordinator -------------------------------------------------------------------------------------

    def _look_up(self, now_ms: int) -> int:
        """Ask any node, if it is time; milliseconds until it is, or until something may have changed."""
        if self._looking_up:
            return FOREVER_MS
        if now_ms < self._next_lookup_ms:
            return self._next_lookup_ms - now_ms
        node = self._network.least_loaded_node(now_ms)
        if node is None:
            return self._config.retry_backoff_ms
        if not self._network.ready(node, now_ms):
            delay_ms = self._network.poll_delay_ms(node, now_ms)
            return FOREVER_MS if delay_ms is None else delay_ms
        terms = find_coordinator(self._config.group_id)
        request = self._network.new_request(
            node.id,
            terms.message_class,
            build=terms.build,
            versions=terms.versions,
            callback=lambda response: self._answers.append((None, response)),
        )
        self._looking_up = True
        self._network.send(request, now_ms)
        return FOREVER_MS

    def _handle_lookup(self, response: ClientResponse) -> None:
        self._looking_up = False
        if response.version_error is not None:
            self._fail_lookup(response.version_error)
            return
        if not isinstance(response.body, FindCoordinatorResponse):
            self._retry_lookup("disconnected")
            return
        body = response.body
        found = body.coordinators[0] if body.coordinators else body
        error = error_of(found.error_code)
        if error is ErrorCode.NONE:
            self._found(Node(found.node_id, found.host, found.port), response)
        elif reaction_to(ApiKey.FIND_COORDINATOR, error) is Reaction.RETRY:
            self._retry_lookup(found.error_message or error.name)
        else:
            self._fail_lookup(ApiError(error, f"{found.error_message or error.message} Group: {self._config.group_id}"))

    def _found(self, node: Node, response: ClientResponse) -> None:
        logger.info("Discovered group coordinator %s", node)
        self._coordinator = node
        self._failed_lookups = 0
        if response.request.node_id != node.id:
            self._network.close_connection(response.request.node_id)  # of no more use
        if self._user is not None:
            self._user.coordinator_found(response.received_ms)

    def _retry_lookup(self, reason: str) -> None:
        logger.debug("Group coordinator lookup failed: %s", reason)
        self._next_lookup_ms = self.now_ms() + self._backoff.after(self._failed_lookups)
        self._failed_lookups += 1

    def _fail_lookup(self, error: Exception) -> None:
        """Nobody can be asked: all that wait are told, and nobody asks again until there is another call."""
        self._retry_lookup(str(error))
        self._wanted = False
        failed, self._waiting = self._waiting, deque()
        for call in failed:
            call.finish(error=error)
