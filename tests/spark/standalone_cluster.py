"""A standalone Spark cluster of separate processes: a master and workers, which start the executors of applications.

    with standalone_cluster(cluster_environment(directory), directory, workers=2) as cluster:
        run_something_with("spark.master", cluster.address)

All are started from the pyspark package and end with the block.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import pyspark

from barnabas_spark.java_home import set_spark_environment
from barnabas_spark.session import QUICK_START

_START_SECONDS = 300.0
"""Longer than any start on a machine that is far too busy."""
_STOP_SECONDS = 30.0


class StandaloneCluster(NamedTuple):
    """A cluster that runs."""

    address: str
    """Of the master: spark://host:port."""
    worker_pids: tuple[int, ...]
    """The workers' processes. Executors are below them."""


def cluster_environment(directory: Path) -> dict[str, str]:
    """The environment of the cluster's processes. No process finds our package by PYTHONPATH."""
    found = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "SPARK_HOME")}
    set_spark_environment(found)
    return found | {
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": os.fspath(directory / "scratch"),
        "SPARK_WORKER_DIR": os.fspath(directory / "work"),
        # The programs must stay children of this process.
        "SPARK_NO_DAEMONIZE": "1",
        "SPARK_DAEMON_MEMORY": "256m",
        # Of every JVM. All of them live for a few minutes: without the optimizing compiler they take less CPU.
        "JDK_JAVA_OPTIONS": " ".join(QUICK_START),
    }


@contextmanager
def standalone_cluster(environment: Mapping[str, str], directory: Path, workers: int) -> Iterator[StandaloneCluster]:
    """Run a master and workers of one core each."""
    spark_class = os.fspath(Path(pyspark.__file__).parent / "bin" / "spark-class")
    with ExitStack() as processes:
        log = directory / "master.log"
        master = [spark_class, "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", "0"]
        running = processes.enter_context(_started([*master, "--webui-port", "0"], environment, log))
        address = _wait_for(running, log, r"Starting Spark master at (spark://\S+)")
        worker = [spark_class, "org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1"]
        worker += ["-c", "1", "-m", "1g", "--webui-port", "0", address]
        logs = [directory / f"worker-{number}.log" for number in range(workers)]
        started = [processes.enter_context(_started(worker, environment, log)) for log in logs]
        for running, log in zip(started, logs, strict=True):
            _wait_for(running, log, "(Successfully registered) with master")
        yield StandaloneCluster(address, tuple(running.pid for running in started))


@contextmanager
def _started(command: Sequence[str], environment: Mapping[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process of Spark's until the block ends."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT)
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_for(process: subprocess.Popen[bytes], log: Path, expression: str) -> str:
    """The first group of the expression in the log, as soon as it is there. Raises AssertionError."""
    deadline = time.monotonic() + _START_SECONDS
    while True:
        said = log.read_text(errors="replace")
        found = re.search(expression, said)
        if found:
            return found[1]
        assert process.poll() is None, said
        assert time.monotonic() < deadline, said
        time.sleep(0.05)
