"""The source and the sink on a standalone cluster of separate processes, and through Spark Connect."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyspark
import pytest

import barnabas_spark
from barnabas_spark.java_home import set_spark_environment
from tests.spark import distributed_application
from tests.spark.distributed_application import ROWS

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

_SECONDS = 500
_PACKAGES = Path(barnabas_spark.__file__).parents[1]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Of all processes here: none of them finds the package by PYTHONPATH."""
    found = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "SPARK_HOME")}
    set_spark_environment(found)
    found |= {
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": os.fspath(tmp_path / "scratch"),
        "SPARK_WORKER_DIR": os.fspath(tmp_path / "work"),
        "SPARK_NO_DAEMONIZE": "1",
    }
    return found


@contextmanager
def started(command: Sequence[str], environment: dict[str, str], log: Path) -> Iterator[None]:
    """Run a process of Spark's until the block ends."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT)
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def wait_for(log: Path, expression: str) -> str:
    """The first group of the expression in the log, as soon as it is there; the test has a limit of its own."""
    import time

    while True:
        found = re.search(expression, log.read_text(errors="replace")) if log.exists() else None
        if found:
            return found[1]
        time.sleep(0.1)


@contextmanager
def standalone_cluster(environment: dict[str, str], directory: Path, workers: int) -> Iterator[str]:
    """Run a master and workers of one core each. Gives the master's address."""
    spark_class = os.fspath(Path(pyspark.__file__).parent / "bin" / "spark-class")
    with ExitStack() as processes:
        log = directory / "master.log"
        master = [spark_class, "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", "0"]
        processes.enter_context(started([*master, "--webui-port", "0"], environment, log))
        address = wait_for(log, r"Starting Spark master at (spark://\S+)")
        for number in range(workers):
            log = directory / f"worker-{number}.log"
            worker = [
                spark_class,
                "org.apache.spark.deploy.worker.Worker",
                "--host",
                "127.0.0.1",
                "-c",
                "1",
                "-m",
                "1g",
            ]
            processes.enter_context(started([*worker, "--webui-port", "0", address], environment, log))
            wait_for(log, "(Successfully registered) with master")
        yield address


def run_application(arguments: Sequence[str], environment: dict[str, str]) -> Any:
    """Run the application. Gives what it has seen."""
    command = [sys.executable, distributed_application.__file__, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_SECONDS, check=False)
    assert done.returncode == 0, done.stderr[-5_000:]
    return json.loads(done.stdout.splitlines()[-1])


def package_archive(directory: Path) -> str:
    """The archive that docs/spark.md tells users to make."""
    path = directory / "barnabas.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted(_PACKAGES.rglob("*.py")):
            archive.write(file, file.relative_to(_PACKAGES))
    return os.fspath(path)


def test_on_a_cluster_of_separate_workers(
    bootstrap_servers: str, new_topic: Callable[[int], str], tmp_path: Path, environment: dict[str, str]
) -> None:
    """The executors have the package from the archive alone."""
    archive = package_archive(tmp_path)
    driver = environment | {"PYTHONPATH": os.fspath(_PACKAGES)}
    with standalone_cluster(environment, tmp_path, workers=2) as address:
        arguments = [address, bootstrap_servers, new_topic(2), new_topic(2), os.fspath(tmp_path), archive]
        seen = run_application(arguments, driver)
    assert (seen["read"], seen["distinct"], seen["streamed"]) == (ROWS, ROWS, ROWS)
    processes, places = zip(*(each.split(" ") for each in seen["executors"]), strict=True)
    assert len(set(processes)) == 2, seen["executors"]
    assert all("barnabas.zip" in place for place in places), places


def test_through_spark_connect(
    bootstrap_servers: str, new_topic: Callable[[int], str], tmp_path: Path, environment: dict[str, str]
) -> None:
    arguments = ["local[2]", bootstrap_servers, new_topic(2), new_topic(2), os.fspath(tmp_path), "-"]
    seen = run_application(arguments, environment | {"PYTHONPATH": os.fspath(_PACKAGES)})
    assert (seen["read"], seen["distinct"], seen["streamed"]) == (ROWS, ROWS, ROWS)
