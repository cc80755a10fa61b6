"""The things that a fault can do to a request.

Tests make them; `fault_plan` carries them to the broker, where `injector` performs them. Immutable and pure. Each has a
`when`: "before" the request is handled, which then never happens unless the action is a Delay, or "after", at the
moment when the broker would hand the answer over. A produce with acks=all, a fetch that waits for records and a join of
a group reach that moment when their wait is over. For example, with `Drop("after")` on Produce:

    acks=1, acks=all   the records are appended (and replicated), then the connection closes without the answer
    acks=0             the records are appended, then the connection closes
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from barnabas.config.config_error import nearest_hint
from barnabas.protocol.errors import ErrorCode

When: TypeAlias = Literal["before", "after"]
"""Before the request is handled, or after it, in place of the answer."""
MAX_DELAY_MS: Final = 24 * 60 * 60 * 1000


@dataclass(frozen=True, slots=True)
class Delay:
    """A wait of `time_ms` milliseconds, on no thread: before the request is handled, or before its answer is sent.

    Requests behind it on the same connection wait too, because answers keep the order of the requests. The broker's
    timer counts whole milliseconds, so that the wait may end less than a millisecond early.
    Raises ValueError unless the time is from 1 ms to a day.
    """

    time_ms: int
    when: When = "before"

    def __post_init__(self) -> None:
        _check_when(self.when)
        if not _is_whole(self.time_ms) or not 1 <= self.time_ms <= MAX_DELAY_MS:
            raise ValueError(f"a delay takes from 1 to {MAX_DELAY_MS} whole milliseconds, not {self.time_ms!r}")


@dataclass(frozen=True, slots=True)
class Error:
    """The answer that says `code`, a name or a number of Kafka's, for the whole request and each of its items.

    The answer has the form that Apache Kafka gives it (getErrorResponse). A client that waits for no answer (acks=0)
    loses its connection, as it does in Kafka. Raises ValueError for a code that Kafka does not have, and for NONE.
    """

    code: ErrorCode | str | int
    when: When = "before"

    def __post_init__(self) -> None:
        _check_when(self.when)
        if self.error_code is ErrorCode.NONE:
            raise ValueError("NONE is no error: an answer with it says that all went well")

    @property
    def error_code(self) -> ErrorCode:
        """The code as an ErrorCode. Raises ValueError for a name or a number that Kafka does not have."""
        code = self.code
        if isinstance(code, str):
            if code in ErrorCode.__members__:
                return ErrorCode[code]
            raise ValueError(f"Kafka has no error {code!r}{nearest_hint(code, ErrorCode.__members__)}")
        try:
            return ErrorCode(code)
        except ValueError:
            raise ValueError(
                f"Kafka has no error code {code!r}: give its name, such as 'NOT_LEADER_OR_FOLLOWER', or its number"
            ) from None


@dataclass(frozen=True, slots=True)
class Drop:
    """The end of the connection in place of the answer. Answers to earlier requests of the connection still leave."""

    when: When = "before"

    def __post_init__(self) -> None:
        _check_when(self.when)


@dataclass(frozen=True, slots=True)
class BlackHole:
    """No answer, ever: the connection stays open, and requests behind this one on it are not read."""

    when: When = "before"

    def __post_init__(self) -> None:
        _check_when(self.when)


@dataclass(frozen=True, slots=True)
class Kill:
    """The end of the broker's process by SIGKILL. `b.start()` starts the broker again."""

    when: When = "before"

    def __post_init__(self) -> None:
        _check_when(self.when)


Action: TypeAlias = Delay | Error | Drop | BlackHole | Kill
ACTIONS: Final = (Delay, Error, Drop, BlackHole, Kill)


def _check_when(when: object) -> None:
    """Check the moment of an action. Raises ValueError unless it is "before" or "after"."""
    if when not in get_args(When):
        raise ValueError(f"`when` is 'before' or 'after', not {when!r}")


def _is_whole(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool)
