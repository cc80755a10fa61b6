"""The loop thread: steps, stopping, errors."""

import threading

import pytest

from barnabas.runtime.thread import ShutdownableThread

PATIENCE_SECONDS = 10


def test_steps_until_shutdown() -> None:
    stepped = threading.Event()
    thread = ShutdownableThread("stepper", stepped.set)
    thread.start()
    assert stepped.wait(PATIENCE_SECONDS)
    assert thread.initiate_shutdown()
    assert not thread.initiate_shutdown()
    assert thread.await_shutdown(PATIENCE_SECONDS)
    assert not thread.is_running


def test_a_pause_ends_with_the_shutdown() -> None:
    entered = threading.Event()

    def step() -> None:
        entered.set()
        thread.pause(3600)

    thread = ShutdownableThread("sleeper", step)
    thread.start()
    assert entered.wait(PATIENCE_SECONDS)
    thread.initiate_shutdown()
    assert thread.await_shutdown(PATIENCE_SECONDS)


def test_an_error_ends_the_thread_and_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    failures: list[BaseException] = []

    def step() -> None:
        raise ValueError("broken")

    thread = ShutdownableThread("failing", step, on_failure=failures.append)
    thread.start()
    assert thread.await_shutdown(PATIENCE_SECONDS)
    assert [str(failure) for failure in failures] == ["broken"]
    assert "failing: error in the loop" in caplog.text


def test_a_survivor_goes_on() -> None:
    steps: list[int] = []
    done = threading.Event()

    def step() -> None:
        steps.append(len(steps))
        if len(steps) == 3:
            done.set()
            thread.initiate_shutdown()
        raise ValueError("again")

    thread = ShutdownableThread("survivor", step, survive_errors=True)
    thread.start()
    assert done.wait(PATIENCE_SECONDS)
    thread.shutdown()
    assert len(steps) == 3


def test_shutdown_before_the_start() -> None:
    thread = ShutdownableThread("never", pytest.fail)
    thread.shutdown()
    assert not thread.is_alive
