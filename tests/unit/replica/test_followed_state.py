"""Where a follower begins to copy, and where it cuts its log."""

from __future__ import annotations

import pytest

from barnabas.replica.fetcher.partition_fetch_state import (
    NO_EPOCH,
    FetchPhase,
    FollowedState,
    FollowerLogPosition,
    truncation_offset,
)
from barnabas.storage.log.leader_epochs import EpochEntry

TOPIC_ID = bytes(range(16))


def facts(state: FollowedState) -> tuple[object, ...]:
    return state.topic_id, state.leader_epoch, state.fetch_offset, state.last_fetched_epoch, state.phase


def test_a_log_with_epochs_is_fetched_from_its_end() -> None:
    state = FollowedState.begin(TOPIC_ID, 7, FollowerLogPosition(0, 40, 60, 6))
    assert facts(state) == (TOPIC_ID, 7, 60, 6, FetchPhase.FETCHING)


def test_a_log_without_epochs_is_cut_at_its_high_watermark_first() -> None:
    state = FollowedState.begin(TOPIC_ID, 7, FollowerLogPosition(0, 40, 60, NO_EPOCH))
    assert facts(state) == (TOPIC_ID, 7, 40, NO_EPOCH, FetchPhase.TRUNCATING)
    assert not state.is_ready(0)
    assert state.at(FollowerLogPosition(0, 40, 40, NO_EPOCH)).is_ready(0)


def test_a_delay_ends_with_time() -> None:
    state = FollowedState.begin(TOPIC_ID, 7, FollowerLogPosition(0, 0, 0, 3)).delayed_until(100)
    assert not state.is_ready(99)
    assert state.is_ready(100)


@pytest.mark.parametrize(
    ("diverging", "own", "log_end", "cut"),
    [
        # The follower wrote more in an epoch than the leader kept of it.
        (EpochEntry(2, 50), EpochEntry(2, 60), 60, 50),
        # The follower has less of that epoch, and a later one that the leader has not (KIP-279).
        (EpochEntry(1, 80), EpochEntry(1, 50), 60, 50),
        # The follower lacks the leader's epoch: cut at the end of an older one, and ask again.
        (EpochEntry(3, 80), EpochEntry(2, 55), 60, 55),
        # The follower knows no epoch as old: the leader's end decides.
        (EpochEntry(0, 20), None, 60, 20),
        (EpochEntry(NO_EPOCH, 30), EpochEntry(0, 10), 60, 30),
        # Never beyond the log's own end.
        (EpochEntry(2, 90), None, 60, 60),
    ],
)
def test_where_the_log_is_cut(diverging: EpochEntry, own: EpochEntry | None, log_end: int, cut: int) -> None:
    assert truncation_offset(diverging, own, log_end) == cut
