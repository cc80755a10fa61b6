"""Answers that are the same for every client until something changes, encoded once.

Made by handlers (Metadata of all topics), kept for one version of what they tell of, given to `Request.respond` like a
message. Used on any thread without a lock: what is kept belongs to one immutable source and is replaced with it by one
assignment; two threads may encode the same answer, and one of them wins. Kafka encodes each answer anew.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from struct import Struct
from typing import Any, Final, cast

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.message import Message

_THROTTLE_TIME: Final = Struct(">i")


class EncodedAnswer:
    """A body but for its throttle time, which belongs to one request; looks like a Message to who sends it.

    has_throttle_time: the version begins with it, as all that have one do. error_code: for who counts errors.
    """

    __slots__ = ("has_throttle_time", "rest", "throttle_time_ms")
    error_code: Final = ErrorCode.NONE

    def __init__(self, rest: bytes, *, has_throttle_time: bool) -> None:
        self.rest = rest
        self.has_throttle_time = has_throttle_time
        self.throttle_time_ms = 0

    @property
    def encoders(self) -> _AppendBody:
        """See Message."""
        return _APPEND_BODY


class _AppendBody:
    """The one encoder, whatever the version: the body is of the right one already."""

    def __getitem__(self, version: int) -> Callable[[EncodedAnswer, bytearray], list[Any]]:
        return _append_body


_APPEND_BODY: Final = _AppendBody()


def _append_body(answer: EncodedAnswer, out: bytearray) -> list[Any]:
    if answer.has_throttle_time:
        out += _THROTTLE_TIME.pack(answer.throttle_time_ms)
    return [out, answer.rest]  # two pieces: a large body is not copied


class EncodedAnswers:
    """The answers of one source, by what tells them apart (version, listener)."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: tuple[object, dict[Hashable, bytes]] = (None, {})

    def find(self, source: object, key: Hashable, *, has_throttle_time: bool) -> Message | None:
        """The answer kept for `key`, if it was made of this very source."""
        kept_of, bodies = self._kept
        body = bodies.get(key) if kept_of is source else None
        return None if body is None else _answer(body, has_throttle_time)

    def keep(self, source: object, key: Hashable, answer: Message, version: int, *, has_throttle_time: bool) -> Message:
        """Encode `answer` for `version` and keep it; what was kept of another source goes. Raises EncodeError."""
        body = b"".join(answer.encode(version))
        if has_throttle_time:
            body = body[_THROTTLE_TIME.size :]
        kept_of, bodies = self._kept
        if kept_of is not source:
            bodies = {}
            self._kept = (source, bodies)
        bodies[key] = body
        return _answer(body, has_throttle_time)


def _answer(body: bytes, has_throttle_time: bool) -> Message:
    return cast("Message", EncodedAnswer(body, has_throttle_time=has_throttle_time))
