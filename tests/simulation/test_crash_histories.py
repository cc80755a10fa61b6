"""Seeded histories of appends, rolls, flushes, truncations, retention, full disks, kills and power failures.

A model keeps every batch ever appended. After each start the log must be a gapless row of whole batches of the model,
hold all that was known to be durable, and its indexes must be true.
"""

from __future__ import annotations

import collections

import pytest

from tests.simulation.crash_history import History
from tests.unit.storage.log_harness import read_all, without_place


@pytest.mark.parametrize("seed", range(40))
def test_history(seed: int) -> None:
    History(seed).run()


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_many_histories(block: int) -> None:
    for seed in range(1000 + block * 100, 1100 + block * 100):
        History(seed).run()


def test_histories_reach_every_kind_of_step() -> None:
    done: collections.Counter[str] = collections.Counter()
    for seed in range(12):
        history = History(seed)
        history.run()
        done += history.done
    assert all(
        done[step] >= 10 for step in ("append", "truncate", "delete_records", "refused", "stop", "kill", "crash")
    ), done


def test_model_sees_what_the_log_stores() -> None:
    history = History(0)
    history.append()
    assert [without_place(one) for one in read_all(history.log)] == [without_place(one) for one in history.model]
