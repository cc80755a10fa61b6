"""What follows when a log directory fails: who is told, and when the broker ends."""

from __future__ import annotations

import queue

import pytest

from barnabas.broker.stages.log_dir_failures import LogDirFailures
from barnabas.zk.store.errors import StoreUnavailableError
from tests.support.mock_clock import MockClock

TIMEOUT_MS = 30_000


class Broker:
    """What the thread calls; every call is an entry of `seen`."""

    def __init__(self, live: list[str], needed_dir: str | None = None, store_failures: int = 0) -> None:
        self.seen: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.clock = MockClock()
        self.live = live
        self.store_failures = store_failures
        self.failures = LogDirFailures(self._fail, self.clock, timeout_ms=TIMEOUT_MS, retry_seconds=0)
        self.needed_dir = needed_dir

    def start(self) -> None:
        self.failures.start(self._stop_serving, lambda: self.live, self._tell, self.needed_dir)

    def next(self) -> str:
        return self.seen.get(timeout=10)

    def _fail(self, error: BaseException) -> None:
        self.seen.put(f"ends: {error}")

    def _stop_serving(self, log_dir: str) -> None:
        self.live.remove(log_dir)
        self.seen.put(f"without {log_dir}")

    def _tell(self) -> None:
        if self.store_failures:
            self.store_failures -= 1
            self.clock.advance(1000)
            raise StoreUnavailableError("/", "is away")
        self.seen.put("told")


def test_failures_are_handled_in_order_those_before_the_start_first() -> None:
    broker = Broker(["/a", "/b", "/c"])
    broker.failures.notify("/b")
    broker.start()
    assert [broker.next(), broker.next()] == ["without /b", "told"]
    broker.failures.notify("/a")
    assert [broker.next(), broker.next()] == ["without /a", "told"]
    broker.failures.notify("/c")
    assert broker.next() == "without /c"
    assert broker.next().startswith("ends: Shutdown broker because all log dirs have failed")
    broker.failures.shutdown()
    assert broker.seen.empty()


def test_the_directory_of_the_metadata_ends_the_broker() -> None:
    broker = Broker(["/a", "/b"], needed_dir="/b")
    broker.start()
    broker.failures.notify("/b")
    assert broker.next() == "without /b"
    assert broker.next() == "ends: Shutdown broker because the metadata log dir /b has failed"
    broker.failures.shutdown()


@pytest.mark.parametrize(("failures", "outcome"), [(5, "told"), (1000, "ends: / is away")])
def test_the_controller_is_told_until_it_hears_or_the_time_is_over(failures: int, outcome: str) -> None:
    broker = Broker(["/a", "/b"], store_failures=failures)
    broker.start()
    broker.failures.notify("/a")
    assert [broker.next(), broker.next()] == ["without /a", outcome]
    broker.failures.shutdown()


def test_a_fault_of_ours_ends_the_broker_and_is_not_swallowed() -> None:
    broker = Broker(["/a"])
    broker.start()
    broker.failures.notify("/unknown")
    assert broker.next().startswith("ends: list.remove")
    broker.failures.shutdown()
