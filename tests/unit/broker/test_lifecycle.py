"""A broker stops what has started, the latest first, and says by its exit status whether something fatal ended it."""

from __future__ import annotations

from barnabas.broker.foundations import FATAL_EXIT_STATUS, BrokerLifecycle, BrokerState


def test_stops_run_once_in_reverse_and_one_that_fails_keeps_none_from_running() -> None:
    lifecycle = BrokerLifecycle()
    stopped: list[str] = []

    def fail_to_stop() -> None:
        stopped.append("replicas")
        raise OSError("the disk is gone")

    lifecycle.on_stop("store", lambda: stopped.append("store"))
    lifecycle.on_stop("replicas", fail_to_stop)
    lifecycle.on_stop("sockets", lambda: stopped.append("sockets"))
    lifecycle.stop()
    lifecycle.stop()
    assert stopped == ["sockets", "replicas", "store"]
    assert (lifecycle.state, lifecycle.exit_status) == (BrokerState.NOT_RUNNING, 0)
    lifecycle.await_end()  # returns at once


def test_a_fatal_error_ends_the_wait_and_shows_in_the_exit_status() -> None:
    lifecycle = BrokerLifecycle()
    lifecycle.state = BrokerState.RUNNING
    lifecycle.fail(OSError("the disk is gone"))
    lifecycle.await_end()
    assert (lifecycle.state, lifecycle.exit_status) == (BrokerState.SHUTTING_DOWN, FATAL_EXIT_STATUS)
    lifecycle.stop()
    assert lifecycle.exit_status == FATAL_EXIT_STATUS
