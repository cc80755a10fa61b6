"""A clock that stands still until a test moves it. Kafka: MockTime."""

from __future__ import annotations

from barnabas.runtime.clock import NANOSECONDS_PER_MILLISECOND

START_MILLISECONDS = 1_700_000_000_000


class MockClock:
    """Wall and monotonic time that move together, by `advance` only."""

    def __init__(self, milliseconds: int = START_MILLISECONDS) -> None:
        self._milliseconds = milliseconds
        self._nanoseconds = NANOSECONDS_PER_MILLISECOND

    def milliseconds(self) -> int:
        """See Clock."""
        return self._milliseconds

    def nanoseconds(self) -> int:
        """See Clock."""
        return self._nanoseconds

    def advance(self, milliseconds: float) -> None:
        """Let time pass; fractions of a millisecond move the monotonic clock only."""
        self._milliseconds += int(milliseconds)
        self._nanoseconds += round(milliseconds * NANOSECONDS_PER_MILLISECOND)

    def set_wall_time(self, milliseconds: int) -> None:
        """Let the wall clock jump, as an administrator or NTP would."""
        self._milliseconds = milliseconds
