"""What holds for every test: the kit's fixture, hypothesis profiles, threads that must not be left behind."""

from __future__ import annotations

import faulthandler
import os
import shlex
import sys
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

# Locks taken in an order that could deadlock are an error, here and in every broker process that tests start.
os.environ["BARNABAS_CHECK_LOCK_ORDER"] = "1"

# Deadlines would time the machine, not the code; CI runs the same examples every time.
settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", parent=settings.get_profile("default"), derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI", "").lower() == "true" else "default")

_SWITCHES = ("BARNABAS_TESTS_COMPILED", "BARNABAS_TESTS_AGAINST", "PYTHONPATH")
_VARIABLES = "".join(f"{name}={shlex.quote(os.environ[name])} " for name in _SWITCHES if os.environ.get(name))
"""The variables that this run was given, as a shell takes them."""


_SECONDS_BEYOND_THE_TIMEOUT = 60.0
_STDERR = pytest.StashKey[int]()
"""The process's own stderr: pytest redirects descriptor 2 while a test runs."""


def pytest_configure(config: pytest.Config) -> None:
    """Keep stderr for the stacks of a test that hangs."""
    config.stash[_STDERR] = os.dup(2)


_QUEUED = frozenset(
    f"tests/{name}.py"
    for name in (
        "broker/test_back_pressure",
        "broker/test_bad_input",
        "broker/test_consumer_groups",
        "broker/test_fetch",
        "broker/test_fetch_sessions",
        "broker/test_idempotence",
        "broker/test_metadata",
        "broker/test_pipelining",
        "broker/test_produce",
        "broker/test_stop",
        "broker/test_transactional_offsets",
        "clients/test_round_trip",
        "fuzz/test_real_requests",
    )
)
"""The tests of a broker that are made in the mode without brief requests, too, in every run of the tests."""


@pytest.hookimpl(tryfirst=True)  # before pytest leaves out what `-m` does not want
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark most tests of a broker that queues all requests as slow.

    Their requests are handled by the same code as in the other mode, on other threads.
    """
    for item in items:
        if item.nodeid.startswith("tests/unit/") or item.nodeid.partition("::")[0] in _QUEUED:
            continue
        callspec = getattr(item, "callspec", None)
        if callspec is not None and "queue" in callspec.params.values():
            item.add_marker(pytest.mark.slow)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """End this process, with the stacks of its threads, where a test hangs beyond pytest-timeout.

    pytest-timeout's thread needs the GIL; a C library that deadlocks while it holds the GIL stops that thread too.
    faulthandler's timer needs no GIL. Under xdist the run reports the test as failed and goes on in a new process.
    """
    marker = item.get_closest_marker("timeout")
    timeout = float(marker.args[0] if marker else item.config.getini("timeout"))
    stderr = item.config.stash[_STDERR]
    faulthandler.dump_traceback_later(timeout + _SECONDS_BEYOND_THE_TIMEOUT, exit=True, file=stderr)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how to run each failed test alone."""
    failed = [*terminalreporter.stats.get("failed", []), *terminalreporter.stats.get("error", [])]
    if not failed:
        return
    terminalreporter.section("to run a failed test alone")
    for report in failed:
        terminalreporter.write_line(f"{_VARIABLES}{sys.executable} -m pytest {shlex.quote(report.nodeid)}")
