"""Seeded histories of a replicated partition under real controllers: nothing committed is lost, and all comes to rest.

As test_replication_histories.py, with `Controller`s on a simulated store in the place of its model: elections of
controllers, sessions that end, watches, orders and answers arrive in any sequence. An epoch has one leader.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pytest

from barnabas.controller import election
from barnabas.replica.fetcher import follower_logs
from barnabas.replica.fetcher.fetcher_thread import ReplicaFetcherThread
from barnabas.storage.log.leader_epochs import EpochEntry
from tests.simulation.controlled_partition import run_history

SEEDS = range(120)


@pytest.fixture(autouse=True)
def _no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReplicaFetcherThread, "start", lambda _: None)


@pytest.mark.parametrize("part", range(4))
def test_nothing_committed_is_lost(part: int) -> None:
    acknowledged = sum(run_history(seed) for seed in SEEDS[part::4])
    assert acknowledged > len(SEEDS), "too few histories acknowledge anything"


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("part", range(20))
def test_nothing_committed_is_lost_in_10_000_histories(part: int) -> None:
    for seed in range(1_000 + part, 11_000, 20):
        run_history(seed)


def _is_found() -> bool:
    try:
        for seed in range(200):
            run_history(seed)
    except AssertionError:
        return True
    return False


def test_an_election_that_ignores_the_in_sync_replicas_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def any_live(
        assignment: Sequence[int], isr: Collection[int], live: Collection[int], *, allow_unclean: bool
    ) -> int | None:
        return next((each for each in assignment if each in live), None)

    monkeypatch.setattr(election, "offline_leader", any_live)
    assert _is_found()


def test_a_follower_that_never_truncates_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def keep_everything(diverging: EpochEntry, own: EpochEntry | None, log_end_offset: int) -> int:
        return log_end_offset

    monkeypatch.setattr(follower_logs, "truncation_offset", keep_everything)
    assert _is_found()
