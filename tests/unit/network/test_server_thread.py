"""The latches of a network thread: when it has started, and when it has ended. Events instead of time."""

from __future__ import annotations

import threading

from barnabas.network.server_thread import AbstractServerThread


class GatedThread(AbstractServerThread):
    """Completes its start, or fails before it, when the test opens the gate."""

    def __init__(self, failure: BaseException | None = None) -> None:
        self.gate = threading.Event()
        self.fatal: list[BaseException] = []
        self._failure = failure
        self._wake = threading.Event()
        super().__init__("gated", self.fatal.append)

    def run(self) -> None:
        self.gate.wait()
        if self._failure is not None:
            raise self._failure
        self.startup_complete()
        self._wake.wait()

    def wakeup(self) -> None:
        self._wake.set()

    def close(self) -> None:
        pass


def test_a_start_is_complete_when_the_loop_says_so() -> None:
    thread = GatedThread()
    thread.start()
    assert not thread.await_startup(0)
    thread.gate.set()
    assert thread.await_startup()
    thread.begin_shutdown()
    assert thread.await_shutdown()


def test_a_thread_that_dies_before_its_loop_lets_its_starter_go_on() -> None:
    defect = RuntimeError("a defect of the thread")
    thread = GatedThread(defect)
    thread.start()
    thread.gate.set()
    assert thread.await_startup()
    assert thread.await_shutdown()
    assert thread.fatal == [defect]
