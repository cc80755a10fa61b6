"""A plain SparkSession of a Python that is not on the PATH, as in an IDE, a notebook or a cron job."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import barnabas_spark
from barnabas_spark.java_home import spark_java_home
from barnabas_spark.registration import prepare

PROGRAM = """
from pyspark.sql import SparkSession
import barnabas_spark

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
barnabas_spark.register(spark)
reader = spark.read.format("barnabas").option("kafka.bootstrap.servers", "127.0.0.1:9")
print("columns:", *reader.option("subscribe", "t").load().columns)
spark.stop()
"""


def test_prepare_names_this_python_and_a_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", dict(os.environ) | {"PYSPARK_PYTHON": "python3"})
    prepare()
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
    assert os.access(os.path.join(os.environ["JAVA_HOME"], "bin", "java"), os.X_OK)


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_a_session_that_runs_finds_the_format_by_register(tmp_path: os.PathLike[str]) -> None:
    environment = {
        "HOME": os.fspath(tmp_path),
        "JAVA_HOME": spark_java_home(os.environ, os.fspath(tmp_path)),
        # The `python3` of these directories has no pyarrow, and may be of another version.
        "PATH": "/usr/bin:/bin",
        "PYTHONPATH": os.path.dirname(os.path.dirname(barnabas_spark.__file__)),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert "columns: key value topic partition offset timestamp timestampType" in run.stdout, run.stderr[-4_000:]
