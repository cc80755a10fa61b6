"""examples/spark_batch.py and spark_stream.py as users run them; Ctrl-C leaves no trace and no process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from barnabas.clients.producer import Producer
from tests.spark.committed_records import committed_values
from tests.support.documented_code import ROOT
from tests.support.server_process import left_in_session

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

EXAMPLES = ROOT / "examples"


def test_a_batch(bootstrap_servers: str) -> None:
    command = [sys.executable, os.fspath(EXAMPLES / "spark_batch.py"), bootstrap_servers]
    said = subprocess.run(command, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert said.stdout.count("|key-") == 4
    assert said.stderr == ""


def test_a_stream_is_stopped_by_ctrl_c_and_goes_on(
    tmp_path: Path, bootstrap_servers: str, new_topic: Callable[[int], str]
) -> None:
    source, target = new_topic(1), new_topic(1)
    command = [sys.executable, os.fspath(EXAMPLES / "spark_stream.py"), bootstrap_servers, source, target]

    def stopped_when(expected: list[bytes]) -> None:
        """Run it until the target has these values, sorted, and stop it as a terminal does. It is given the last."""
        process = subprocess.Popen(
            command,
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == f"following {source}; Ctrl-C stops\n"
            # "latest" is what was there at the first start: the first value of each run is written after that.
            while not (tmp_path / "spark-stream-state" / "start").exists():
                assert process.poll() is None
                time.sleep(0.1)
            with Producer(bootstrap_servers) as producer:
                producer.send(source, expected[-1].lower()).result()
            while committed_values(bootstrap_servers, target, 1) != expected:
                assert process.poll() is None
                time.sleep(0.2)
            os.killpg(process.pid, signal.SIGINT)
            assert process.communicate()[0] == ""
            assert process.returncode == 0
            assert left_in_session(process.pid) == []
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    stopped_when([b"ONE"])
    with Producer(bootstrap_servers) as producer:
        producer.send(source, b"three").result()
    stopped_when([b"ONE", b"THREE", b"TWO"])
