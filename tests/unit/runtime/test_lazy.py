"""What is made when it is needed: made once, however many ask at a time; and again after a failure."""

from __future__ import annotations

import threading

import pytest

from barnabas.runtime.lazy import Lazy


def test_many_threads_get_the_one_object() -> None:
    made: list[object] = []
    may_go_on = threading.Event()

    def make() -> object:
        assert may_go_on.wait(10)
        made.append(object())
        return made[-1]

    lazily = Lazy(make)
    got: list[object] = []
    threads = [threading.Thread(target=lambda: got.append(lazily())) for _ in range(4)]
    for thread in threads:
        thread.start()
    was_made_before = lazily.made
    may_go_on.set()
    for thread in threads:
        thread.join(10)
    assert was_made_before is None
    assert [lazily.made] == made
    assert got == made * 4


def test_a_failure_is_told_and_the_next_call_tries_again() -> None:
    outcomes = iter([None, "made"])

    def make() -> str:
        outcome = next(outcomes)
        if outcome is None:
            raise OSError("no")
        return outcome

    lazily = Lazy(make)
    with pytest.raises(OSError, match="no"):
        lazily()
    assert lazily() == "made"
    assert lazily() == "made"
