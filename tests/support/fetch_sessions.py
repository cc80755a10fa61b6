"""Fetch sessions for tests of the Fetch handler: ten, with a clock that tests move and chance that repeats itself."""

from __future__ import annotations

from random import Random

from barnabas.api.fetch.fetch_session_cache import FetchSessionCache
from barnabas.api.fetch.fetch_sessions import FetchSessions
from barnabas.replica.partitions.session_watches import SessionWatches
from tests.support.mock_clock import MockClock


def fetch_sessions(
    clock: MockClock | None = None, slots: int = 10, watches: SessionWatches | None = None
) -> FetchSessions:
    """What FetchApi needs. watches: those of the replicas that the sessions read."""
    clock = MockClock() if clock is None else clock
    return FetchSessions(FetchSessionCache(slots, clock, Random(1), watches or SessionWatches()))
