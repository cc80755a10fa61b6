"""One request to a group's coordinator, from the queue to its result.

Made by `MemberSession` and `OffsetCommits`, on either thread of the consumer; sent and finished by the
`CoordinatorChannel`. Every field is guarded by the channel's lock. Kafka: RequestFuture.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from barnabas.protocol.messages.classic_groups import LeaveGroupRequest
from barnabas.protocol.messages.offsets import OffsetCommitRequest
from barnabas.rpc.client_request import RequestBuilder
from barnabas.rpc.node import Node

_AWAITED_AT_CLOSE = (OffsetCommitRequest, LeaveGroupRequest)
"""The requests that still matter to the group after the consumer has closed."""


class CoordinatorCall:
    """A request to the coordinator, and its result or error once it is `done`.

    handle(body): reads the answer on the channel's thread under the lock. Its return value becomes `result`, what it
    raises becomes `error`. deadline_ms: when the call fails if the coordinator was not found by then.
    """

    __slots__ = ("builder", "deadline_ms", "done", "error", "handle", "node", "on_done", "result", "timeout_ms")

    def __init__(
        self,
        builder: RequestBuilder,
        handle: Callable[[Any], Any],
        deadline_ms: int,
        *,
        timeout_ms: int | None = None,
        on_done: Callable[[CoordinatorCall], None] | None = None,
    ) -> None:
        self.builder = builder
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
        """Whether a consumer that closes waits for the answer."""
        return issubclass(self.builder.message_class, _AWAITED_AT_CLOSE)

    def finish(self, result: Any = None, error: Exception | None = None) -> None:
        """Set the result or the error, and call `on_done`. Called once, under the lock."""
        self.done, self.result, self.error = True, result, error
        if self.on_done is not None:
            self.on_done(self)
