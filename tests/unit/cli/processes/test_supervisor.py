"""The parent of several brokers: which broker it starts and stops when, without a process."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from barnabas.cli.processes.supervisor import Ended, Event, Ready, Stop, Supervisor, how, ready_of
from tests.support.mock_clock import MockClock

LINE = "barnabas ready: PLAINTEXT://h:1,SSL://h:2 broker=1 cluster=c console=http://h:3 data=/a b=c,/d\n"


def ready(broker_id: int) -> Ready:
    return Ready(broker_id, f"PLAINTEXT://h:{broker_id}", {})


class Parent:
    """A supervisor whose events are listed: a number lets time pass, in seconds, where it may wait so long."""

    def __init__(self, count: int, *events: Event | float, controller: int | None = None) -> None:
        self.done: list[str] = []
        self._events = list(events)
        self._clock = MockClock()
        self.failures = 0
        """How many of the next starts fail."""
        self.failing_later = 0
        """The same, once all are ready."""
        self._supervisor = Supervisor(count, self._start, self._stop, self._next, lambda: controller, self._clock)

    def run(self) -> int:
        return self._supervisor.run(self._announce)

    def _start(self, broker_id: int) -> None:
        if self.failures:
            self.failures -= 1
            raise OSError("no memory")
        self.done.append(f"start {broker_id}")

    def _stop(self, broker_id: int) -> None:
        self.done.append(f"stop {broker_id}")
        self._events.insert(0, Ended(broker_id, 0))

    def _announce(self, brokers: Sequence[Ready]) -> None:
        self.failures = self.failing_later
        self.done.append("ready " + " ".join(str(each.broker_id) for each in brokers))

    def _next(self, seconds: float | None) -> Event | None:
        event = self._events.pop(0)
        if not isinstance(event, int | float):
            return event
        if seconds is None or event < seconds:
            self._clock.advance(event * 1_000)
            return self._next(None if seconds is None else seconds - event)
        self._clock.advance(seconds * 1_000)
        self._events.insert(0, event - seconds)
        self.done.append(f"after {seconds:g}")
        return None


def test_all_are_started_told_once_ready_and_stopped_one_by_one() -> None:
    parent = Parent(3, ready(1), ready(0), ready(2), Stop("SIGTERM"), controller=1)
    assert parent.run() == 0
    assert parent.done == ["start 0", "start 1", "start 2", "ready 0 1 2", "stop 2", "stop 0", "stop 1"]


def test_a_broker_that_ends_before_all_are_ready_stops_the_start() -> None:
    parent = Parent(2, ready(0), Ended(1, 1))
    assert parent.run() == 1
    assert parent.done == ["start 0", "start 1", "stop 0"]


def test_a_broker_that_dies_is_started_again_ever_later() -> None:
    dies, up = Ended(0, -9), ready(0)
    parent = Parent(1, up, dies, 1, up, dies, 2, dies, 4, up, 59, dies, 8, up, 60, dies, 1, up, Stop("SIGINT"))
    assert parent.run() == 0
    waits = [each for each in parent.done if each.startswith("after")]
    assert waits == ["after 1", "after 2", "after 4", "after 8", "after 1"]
    assert parent.done.count("start 0") == 6
    assert parent.done.count("ready 0") == 1


def test_the_others_go_on_meanwhile_and_a_stop_does_not_wait_for_the_dead() -> None:
    parent = Parent(2, ready(0), ready(1), Ended(1, 0), Ended(0, 3), 0.5, Stop("SIGTERM"))
    assert parent.run() == 0
    assert parent.done == ["start 0", "start 1", "ready 0 1"]


def test_a_process_that_cannot_be_made_is_tried_again() -> None:
    parent = Parent(1, ready(0), Ended(0, 1), 1, 2, ready(0), Stop("SIGTERM"))
    parent.failing_later = 1
    assert parent.run() == 0
    assert parent.done == ["start 0", "ready 0", "after 1", "after 2", "start 0", "stop 0"]


def test_a_stop_that_is_a_failure_and_a_broker_that_stops_badly_show_in_the_status() -> None:
    assert Parent(1, ready(0), Stop("the metadata store has failed", 1)).run() == 1
    badly = Parent(2, ready(0), ready(1), Stop("SIGTERM"), controller=0)
    badly._supervisor._stop_process = lambda broker_id: badly._events.insert(0, Ended(broker_id, broker_id))
    assert badly.run() == 1


@pytest.mark.parametrize(("status", "words"), [(-9, "was killed by SIGKILL"), (3, "ended with exit status 3")])
def test_an_end_is_told_in_words(status: int, words: str) -> None:
    assert how(status) == words


def test_the_ready_line_of_a_broker_is_read() -> None:
    facts = {"broker": "1", "cluster": "c", "console": "http://h:3"}
    assert ready_of(1, LINE) == Ready(1, "PLAINTEXT://h:1,SSL://h:2", facts)
