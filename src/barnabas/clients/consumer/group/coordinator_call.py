"""One request to a group's coordinator, from the queue to its result.

Made by the sessions of both protocols and `OffsetCommits`, on either thread of the consumer; sent and finished by the
`CoordinatorChannel`. Every field is guarded by the channel's lock. Kafka: RequestFuture.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from barnabas.protocol.messages.offsets import OffsetCommitRequest
from barnabas.rpc.client_request import RequestBuilder
from barnabas.rpc.node import Node


class CoordinatorCall:
    """A request to the coordinator, and its result or error once it is `done`.

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
