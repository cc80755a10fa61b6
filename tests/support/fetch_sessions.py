"""Fetch sessions for tests of the Fetch handler: ten, with a clock that tests move and chance that repeats itself."""

from __future__ import annotations

from random import Random

from barnabas.api.fetch_session_cache import FetchSessionCache
from barnabas.api.fetch_sessions import FetchSessions
from tests.support.mock_clock import MockClock


def fetch_sessions(clock: MockClock | None = None, slots: int = 10) -> FetchSessions:
    """What FetchApi needs."""
    return FetchSessions(FetchSessionCache(slots, MockClock() if clock is None else clock, Random(1)))
