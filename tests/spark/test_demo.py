"""`barnabas demo` as a newcomer runs it; and that Ctrl-C, at any moment, leaves nothing behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.support.server_process import left_in_session

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]


@contextmanager
def demo(output: Path) -> Iterator[subprocess.Popen[str]]:
    """The command in a session of its own, as a terminal would have it."""
    process = subprocess.Popen(
        [sys.executable, "-m", "barnabas", "demo", "--output-dir", os.fspath(output)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_the_whole_trip_and_a_second_run(tmp_path: Path) -> None:
    for _ in range(2):
        with demo(tmp_path / "output") as process:
            said = process.communicate()[0]
            assert process.returncode == 0, said
            assert left_in_session(process.pid) == []
        assert "336,776 flights, 8,255 of them cancelled: the same at both ends" in said
        assert (tmp_path / "output" / "departure-delays.png").stat().st_size > 100_000
        assert list((tmp_path / "output" / "departure-delays.parquet").glob("*.parquet"))
        assert "WARN" not in said


@pytest.mark.parametrize(
    ("moment", "signal_number", "to_all"),
    [
        ("Starting the broker", signal.SIGINT, True),
        ("Starting Spark", signal.SIGINT, True),
        ("Starting Spark: done", signal.SIGTERM, False),
        # The progress is shown every three seconds, so on a fast machine no line names micro-batch 1.
        (r"micro-batch [1-5],", signal.SIGINT, True),
        (r"micro-batch [1-5],", signal.SIGKILL, False),
    ],
)
def test_nothing_is_left_running(tmp_path: Path, moment: str, signal_number: signal.Signals, to_all: bool) -> None:
    with demo(tmp_path / "output") as process:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if re.search(moment, line):
                break
        else:
            pytest.fail(f"no line matches {moment!r}:\n{''.join(lines)}")
        (os.killpg if to_all else os.kill)(process.pid, signal_number)
        said = process.communicate(timeout=60)[0]
        if signal_number is not signal.SIGKILL:
            assert process.returncode == 130
            assert said.endswith("stopped; nothing is left running\n")
        assert left_in_session(process.pid) == []
