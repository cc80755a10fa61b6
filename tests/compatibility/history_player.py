"""Plays a history of requests to one broker, step by step, and tells what was answered in a form that can be compared.

The base of the players of `group_histories` and `consumer_group_histories`. Every request has a connection of its own,
because some are answered only when others come.
"""

from __future__ import annotations

import selectors
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.headers import decode_response_header, response_header_version
from barnabas.protocol.messages.classic_groups import JoinGroupResponse, SyncGroupResponse
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.protocol.messages.group_admin import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from barnabas.protocol.messages.message import Message
from tests.support.raw_client import SECONDS, ConnectionClosed, RawClient
from tests.support.server_process import ServerProcess

WAIT_SECONDS: Final = 1.1
"""What a step "wait" waits: longer than the short rebalance time-out."""
REBALANCE_MS: Final = 700
PATIENCE_SECONDS: Final = 5.0
"""For the answer to a request that waits for nobody: it comes, however busy the machine."""
SOME_OF_EVERY_PARTITION: Final = [f"group-{number}" for number in range(1000)]
"""Ids of groups, as many that some belong to each partition of the topic of offsets."""


@dataclass(frozen=True)
class Step:
    """One step: what is done, by whom, and how."""

    kind: str
    actor: str = ""
    version: int = 0
    options: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        words = [f"{name}={value!r}" for name, value in self.options.items()]
        return f"{self.kind}({', '.join([self.actor, f'v{self.version}', *words])})"


@dataclass
class _Waiting:
    """A request whose answer has not come."""

    label: str
    actor: str
    client: RawClient
    answer: type[Message]
    version: int
    is_repeated: bool = False
    """Its actor has sent another of its kind. Kafka's coordinator forgets the earlier one and never answers it; ours
    answers it with REBALANCE_IN_PROGRESS, so that nobody waits forever. Neither is told."""


class HistoryPlayer(ABC):
    """One broker and one group. A step "x" is played by the method `_x`.

    settle_seconds: how long nothing has to come before a step counts as over.
    """

    def __init__(self, server: ServerProcess, group: str, settle_seconds: float) -> None:
        self._server = server
        self._group = group
        self._settle_seconds = settle_seconds
        self._waiting: list[_Waiting] = []
        self._step = 0

    def close(self) -> None:
        """Hang up."""
        for each in self._waiting:
            each.client.close()

    def play(self, step: Step) -> list[str]:
        """Do one step; the answers that came, to it or to earlier ones, sorted."""
        self._step += 1
        if step.kind == "wait":
            return self._answers(WAIT_SECONDS)
        played: Callable[[Step], list[str]] = getattr(self, f"_{step.kind}")
        return played(step)

    def answers_that_come_late(self, seconds: float) -> list[str]:
        """What else is answered to the steps so far."""
        return self._answers(seconds)

    @abstractmethod
    def _tell(self, actor: str, answer: Any) -> str:
        """An answer in words, without what one broker may do otherwise than the other."""

    def _ask(self, step: Step, request: Message, answer: type[Message]) -> list[str]:
        """Send the request of a step; what is answered to it, and to earlier ones because of it."""
        client = RawClient(self._server)
        client.send(request, step.version)
        for each in self._waiting:
            each.is_repeated |= (each.actor, each.answer) == (step.actor, answer)
        label = f"{self._step} {step.kind} {step.actor}"
        self._waiting.append(_Waiting(label, step.actor, client, answer, step.version))
        may_wait = answer is JoinGroupResponse or answer is SyncGroupResponse
        return self._answers(awaited=None if may_wait else self._waiting[-1])

    def _answers(self, at_least_seconds: float = 0.0, *, awaited: _Waiting | None = None) -> list[str]:
        told = []
        begun = last = time.monotonic()
        until = begun + at_least_seconds
        while self._waiting:
            is_late = any(each is awaited for each in self._waiting)
            end = max(until, begun + PATIENCE_SECONDS if is_late else 0.0, last + self._settle_seconds)
            if (left := end - time.monotonic()) <= 0:
                break
            with selectors.DefaultSelector() as selector:
                for socket in {each.client.socket for each in self._waiting}:
                    selector.register(socket, selectors.EVENT_READ)
                ready = {key.fileobj for key, _ in selector.select(left)}
            for each in [each for each in self._waiting if each.client.socket in ready]:
                self._waiting.remove(each)
                words = self._take(each)
                if not (each.is_repeated and ErrorCode.REBALANCE_IN_PROGRESS.name in words):
                    told.append(words)
                last = time.monotonic()
        if (left := until - time.monotonic()) > 0:
            time.sleep(left)
        return sorted(told)

    def _take(self, waiting: _Waiting) -> str:
        try:
            frame = waiting.client.receive_frame()
        except ConnectionClosed:
            return f"{waiting.label}: the connection was closed"
        finally:
            waiting.client.close()
        header = response_header_version(waiting.answer.api_key, waiting.version)
        _, offset = decode_response_header(frame, header)
        answer, _ = waiting.answer.decode(frame, waiting.version, offset)
        return f"{waiting.label} v{waiting.version}: {self._tell(waiting.actor, answer)}"


def name_of(code: int) -> str:
    """An error in words."""
    return ErrorCode(code).name


def wait_for_coordinator(server: ServerProcess) -> None:
    """Have the topic of offsets made, and wait until its coordinator answers for every group."""
    deadline = time.monotonic() + SECONDS
    with RawClient(server) as client:
        while True:
            found = client.call(FindCoordinatorRequest("any"), 1, FindCoordinatorResponse)
            listed = client.call(ListGroupsRequest(), 1, ListGroupsResponse)
            described = client.call(DescribeGroupsRequest(SOME_OF_EVERY_PARTITION), 1, DescribeGroupsResponse)
            errors = {found.error_code, listed.error_code, *(group.error_code for group in described.groups)}
            if errors == {ErrorCode.NONE}:
                return
            assert time.monotonic() < deadline, errors
            time.sleep(0.05)
