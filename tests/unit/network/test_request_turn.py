"""What one turn of the network thread's loop runs at once: pure, by the times it is told."""

from __future__ import annotations

import pytest

from barnabas.network.connections.request_intake import SLOW_REQUEST_NS, TURN_NS, RequestTurn

BEGIN = 7_000_000_000


def begun(*, may_run_at_once: bool = True) -> RequestTurn:
    turn = RequestTurn(may_run_at_once=may_run_at_once)
    turn.begin(BEGIN)
    return turn


def test_many_brief_requests_use_a_turn_up_and_the_rest_waits_for_the_next() -> None:
    turn = begun()
    late = turn.ends_ns + 1
    assert turn.is_used_up(late, last_began_ns=late - 1)
    assert turn.at_once
    turn.begin(late + 10)
    assert turn.ends_ns == late + 10 + TURN_NS


def test_behind_a_slow_request_the_turn_goes_on_without_running_any_at_once() -> None:
    turn = begun()
    late = BEGIN + 10 * SLOW_REQUEST_NS
    assert not turn.is_used_up(late, last_began_ns=late - SLOW_REQUEST_NS)
    assert not turn.at_once
    assert not turn.is_used_up(late + 1, last_began_ns=late)  # no frame is left behind: all of them are queued
    turn.begin(late + 2)
    assert turn.at_once


def test_the_time_since_a_request_of_an_earlier_turn_proves_nothing() -> None:
    turn = begun()
    late = turn.ends_ns + 1
    assert turn.is_used_up(late, last_began_ns=BEGIN - 100 * SLOW_REQUEST_NS)
    assert turn.at_once


@pytest.mark.parametrize("elapsed", [0, TURN_NS + 1, SLOW_REQUEST_NS + 1])
def test_where_nothing_may_run_at_once_nothing_does(elapsed: int) -> None:
    turn = begun(may_run_at_once=False)
    turn.is_used_up(BEGIN + elapsed, last_began_ns=BEGIN)
    assert not turn.at_once
