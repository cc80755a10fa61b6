"""How the admin client's requests find the broker that answers them, and how errors in answers are raised.

Owned by `Admin`, called by it and by the modules beside it, on any thread: `_lock` lets one request at a time through.
Kafka: KafkaAdminClient.Call, its node providers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable
from typing import TypeVar

from barnabas.clients.blocking_client import BlockingClient
from barnabas.clients.cluster import Cluster
from barnabas.clients.errors import error_of
from barnabas.clients.leader_calls import ask_leaders
from barnabas.clients.offset_lookup import OffsetAndTimestamp, lookup_offsets
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.message import Message
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.rpc.node import Node

_RETRY_MS = 100
_LONGEST_BROKER_TIMEOUT_MS = 30_000

_A = TypeVar("_A", bound=Message)
_V = TypeVar("_V")


class AdminCalls:
    """`timeout_ms` bounds each call, retries included."""

    def __init__(self, client: BlockingClient, timeout_ms: int) -> None:
        self._client = client
        self._timeout_ms = timeout_ms
        self._lock = threading.Lock()

    @property
    def broker_timeout_ms(self) -> int:
        """How long the broker may take: for the timeout in a request."""
        return min(self._timeout_ms, _LONGEST_BROKER_TIMEOUT_MS)

    def ask(self, request: Message, answer_class: type[_A], to: Callable[[Cluster], Node | None] | None = None) -> _A:
        """The answer of the node that `to` chooses, of any if it is None. Raises ClientTimeout, Disconnected."""
        with self._lock:
            answer = self._client.call(request, to=to, deadline_ms=self._deadline_ms())
        assert isinstance(answer, answer_class)
        return answer

    def ask_broker(self, broker_id: int, request: Message, answer_class: type[_A]) -> _A:
        """The answer of one broker."""
        return self.ask(request, answer_class, lambda cluster: cluster.nodes.get(broker_id))

    def ask_controller(
        self,
        request: Message,
        answer_class: type[_A],
        errors: Callable[[_A], Iterable[int]],
        versions: tuple[int, int] | None = None,
    ) -> _A:
        """The answer of the controller, or of its successor if it no longer is the controller.

        errors: all error codes of an answer.
        """
        with self._lock:
            deadline_ms = self._deadline_ms()
            while True:
                answer = self._client.call(
                    request, to=lambda cluster: cluster.controller, versions=versions, deadline_ms=deadline_ms
                )
                assert isinstance(answer, answer_class)
                moved = ErrorCode.NOT_CONTROLLER in list(errors(answer))
                if not moved or self._client.now_ms() >= deadline_ms:
                    return answer
                self._client.metadata.request_update()
                self._client.poll(_RETRY_MS)

    def ask_leaders(
        self,
        partitions: Collection[TopicPartition],
        request_for: Callable[[Collection[TopicPartition]], Message],
        results_in: Callable[[_A], Iterable[tuple[TopicPartition, int, _V]]],
    ) -> dict[TopicPartition, _V]:
        """See `leader_calls.ask_leaders`."""
        with self._lock:
            return ask_leaders(self._client, partitions, request_for, results_in, self._deadline_ms())

    def lookup_offsets(self, timestamps_ms: dict[TopicPartition, int]) -> dict[TopicPartition, OffsetAndTimestamp]:
        """See `offset_lookup.lookup_offsets`."""
        with self._lock:
            return lookup_offsets(self._client, timestamps_ms, self._deadline_ms())

    def close(self) -> None:
        """Close the connections. Idempotent."""
        with self._lock:
            self._client.close()

    def _deadline_ms(self) -> int:
        return self._client.now_ms() + self._timeout_ms


def error_in(code: int, message: str | None, about: str) -> ApiError | None:
    """The error of an answer; None if it tells of none. about: what it is about, where the broker doesn't say."""
    if not code:
        return None
    error = error_of(code)
    return ApiError(error, message or f"{error.message} {about}")


def raise_error(code: int, message: str | None, about: str) -> None:
    """Raise the error of an answer, if it tells of one."""
    error = error_in(code, message, about)
    if error is not None:
        raise error
