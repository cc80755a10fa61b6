"""What holds for every test: the kit's fixture, hypothesis profiles, threads that must not be left behind."""

from __future__ import annotations

import os
import shlex
import sys

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


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how to run each failed test alone."""
    failed = [*terminalreporter.stats.get("failed", []), *terminalreporter.stats.get("error", [])]
    if not failed:
        return
    terminalreporter.section("to run a failed test alone")
    for report in failed:
        terminalreporter.write_line(f"{_VARIABLES}{sys.executable} -m pytest {shlex.quote(report.nodeid)}")
