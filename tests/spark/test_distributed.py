"""The source and the sink on a standalone cluster of separate processes, and through Spark Connect."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import barnabas_spark
from tests.spark import distributed_application
from tests.spark.distributed_application import ROWS
from tests.spark.standalone_cluster import cluster_environment, standalone_cluster

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

_SECONDS = 500
_PACKAGES = Path(barnabas_spark.__file__).parents[1]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Of all processes here: none of them finds the package by PYTHONPATH."""
    return cluster_environment(tmp_path)


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
    with standalone_cluster(environment, tmp_path, workers=2) as cluster:
        arguments = [cluster.address, bootstrap_servers, new_topic(2), new_topic(2), os.fspath(tmp_path), archive]
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
