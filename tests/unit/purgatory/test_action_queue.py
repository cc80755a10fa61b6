"""Put-off actions run in order; what they add waits for the next drain; a failing one does not stop the rest."""

from __future__ import annotations

from barnabas.purgatory.action_queue import ActionQueue


def test_runs_in_order_and_bounds_the_drain() -> None:
    actions = ActionQueue()
    ran: list[str] = []

    def fail() -> None:
        raise ValueError("broken action")

    def add_more() -> None:
        ran.append("first")
        actions.add(lambda: ran.append("added meanwhile"))

    actions.add(add_more)
    actions.add(fail)
    actions.add(lambda: ran.append("last"))
    actions.run_all()
    assert ran == ["first", "last"]
    assert actions.pending
    actions.run_all()
    assert ran == ["first", "last", "added meanwhile"]
    assert not actions.pending
