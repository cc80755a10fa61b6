"""The choice of calls."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.faults.fault_plan import All, Calls, Chance, Every, First, Nth


@pytest.mark.parametrize(
    ("calls", "hit"),
    [
        (All(), [1, 2, 3, 4, 5, 6, 7]),
        (Nth(3), [3]),
        (First(3), [1, 2, 3]),
        (Every(3), [3, 6]),
        (Every(1), [*range(1, 8)]),
    ],
)
def test_which_calls_are_hit(calls: Calls, hit: list[int]) -> None:
    assert [call for call in range(1, 8) if calls.includes(call)] == hit


def test_chance_follows_its_seed_and_its_probability() -> None:
    drawn = [call for call in range(1, 10_001) if Chance(0.1, seed=5).includes(call)]
    assert drawn == [call for call in range(1, 10_001) if Chance(0.1, seed=5).includes(call)]
    assert drawn != [call for call in range(1, 10_001) if Chance(0.1, seed=6).includes(call)]
    assert 900 < len(drawn) < 1100
    assert all(Chance(1).includes(call) for call in range(1, 1000))


def test_a_draw_does_not_depend_on_the_draws_before() -> None:
    assert [Chance(0.5).includes(call) for call in (9, 3)] == [Chance(0.5).includes(call) for call in (3, 9)][::-1]


@pytest.mark.parametrize("kind", [Nth, First, Every])
@pytest.mark.parametrize("number", [0, -1, 1.5, True, "3", None])
def test_a_number_below_one_or_of_another_kind_is_refused(kind: Any, number: Any) -> None:
    with pytest.raises(ValueError, match=f"{kind.__name__} takes a whole number from 1, not {number!r}"):
        kind(number)


@pytest.mark.parametrize("probability", [0, -0.1, 1.01, float("nan"), True, "0.5"])
def test_a_probability_is_above_0_and_at_most_1(probability: Any) -> None:
    with pytest.raises(ValueError, match="a probability is above 0 and at most 1, not"):
        Chance(probability)


def test_a_seed_is_a_whole_number() -> None:
    with pytest.raises(ValueError, match=r"a seed is a whole number, not 0\.5"):
        Chance(0.5, 0.5)  # type: ignore[arg-type]
