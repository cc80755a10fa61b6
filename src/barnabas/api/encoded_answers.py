"""Answers that are the same for every client until something changes, encoded once.

Made by handlers (Metadata of all topics), kept for one version of the data they show, given to `Request.respond` beside
a message that stands for them. Used on any thread without a lock: the kept answers belong to one immutable source and
are replaced with it by one assignment; two threads may encode the same answer, and the last assignment wins. Kafka
encodes each answer again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from struct import Struct
from typing import Any, ClassVar, Final

from barnabas.protocol.messages.message import Message

_THROTTLE_TIME: Final = Struct(">i")


class _AppendBody(dict[int, Callable[["EncodedAnswer", bytearray], list[Any]]]):
    """The one encoder for all versions: the body has the right one already. A dict, because compiled code checks
    that."""

    def __missing__(self, version: int) -> Callable[[EncodedAnswer, bytearray], list[Any]]:
        return _append_body


class EncodedAnswer(Message):
    """A body encoded before, without the throttle time it begins with, which belongs to one request.

    throttle_time_ms: None in versions without that field; in all others it is the first field.
    """

    __slots__ = ("rest", "throttle_time_ms")
    declarations = __slots__
    encoders: ClassVar[Mapping[int, Callable[..., list[Any]]]] = _AppendBody()

    def __init__(self, rest: bytes, throttle_time_ms: int | None) -> None:
        self.rest = rest
        self.throttle_time_ms = throttle_time_ms

    def throttled_as(self, answer: Any) -> EncodedAnswer:
        """Return the same body with the throttle time of `answer`, the message that stands for it."""
        return self if self.throttle_time_ms is None else EncodedAnswer(self.rest, answer.throttle_time_ms)


def _append_body(answer: EncodedAnswer, out: bytearray) -> list[Any]:
    if answer.throttle_time_ms is not None:
        out += _THROTTLE_TIME.pack(answer.throttle_time_ms)
    return [out, answer.rest]  # two pieces: a large body is not copied


class EncodedAnswers:
    """The answers of one source, by what distinguishes them (version, listener)."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: tuple[object, dict[Hashable, EncodedAnswer]] = (None, {})

    def find(self, source: object, key: Hashable) -> EncodedAnswer | None:
        """Return the answer kept for `key`, if it was made of this very source, else None."""
        # Read once: another thread may replace the pair, and source and answers must belong together.
        kept_of, answers = self._kept
        return answers.get(key) if kept_of is source else None

    def keep(
        self, source: object, key: Hashable, answer: Message, version: int, *, has_throttle_time: bool
    ) -> EncodedAnswer:
        """Encode `answer` for `version` and keep it; answers of another source go.

        Raises EncodeError when the version cannot express it.
        """
        # Joined, although that copies: the bytes are kept, and sent many times.
        body = b"".join(answer.encode(version))
        encoded = EncodedAnswer(body[_THROTTLE_TIME.size :], 0) if has_throttle_time else EncodedAnswer(body, None)
        kept_of, answers = self._kept
        if kept_of is not source:
            # A new dictionary, never one that is emptied: another thread may be reading the old one.
            answers = {}
            self._kept = (source, answers)
        answers[key] = encoded
        return encoded
