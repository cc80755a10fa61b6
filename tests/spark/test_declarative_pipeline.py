"""The example of Spark Declarative Pipelines, run twice by `spark-pipelines` as users run it, in its own process."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pyspark
import pytest

import barnabas_spark
from barnabas.clients.admin import Admin, NewTopic
from barnabas.clients.producer import Producer
from barnabas.testing import broker
from barnabas_spark.java_home import set_spark_environment
from tests.spark.committed_records import committed_records

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

_EXAMPLE = Path(__file__).parents[2] / "examples" / "declarative"
_PROGRAM = Path(sys.executable).parent / "spark-pipelines"


def run(directory: Path, brokers: str) -> None:
    environment = {**os.environ, "BARNABAS_BROKERS": brokers, "SPARK_LOCAL_IP": "127.0.0.1"}
    set_spark_environment(environment)
    environment["SPARK_HOME"] = os.path.dirname(pyspark.__file__)
    environment["PYTHONPATH"] = os.fspath(Path(barnabas_spark.__file__).parents[1])
    command = [os.fspath(_PROGRAM), "run", "--conf", "spark.sql.catalogImplementation=hive"]
    done = subprocess.run(command, check=False, cwd=directory, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_run_goes_on_where_the_last_one_ended(tmp_path: Path) -> None:
    directory = tmp_path / "pipeline"
    shutil.copytree(_EXAMPLE, directory)
    specification = directory / "spark-pipeline.yml"
    text = specification.read_text()
    assert "file:///tmp/orders-storage" in text
    specification.write_text(text.replace("file:///tmp/orders-storage", f"file://{directory}/storage"))
    orders = [{"id": number, "customer": f"c{number % 2}", "amount": number * 20} for number in range(20)]
    with broker() as running:
        with Admin(running.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("orders", 2, 1), NewTopic("large-orders", 1, 1)])
        for part in (orders[:10], orders[10:]):
            with Producer(running.bootstrap_servers) as producer:
                for order in part:
                    producer.send("orders", json.dumps(order).encode())
            run(directory, running.bootstrap_servers)
        written = committed_records(running.bootstrap_servers, "large-orders", 1)
    wanted = [(order["id"], order["customer"]) for order in orders if int(str(order["amount"])) >= 100]
    found = [(json.loads(record.value or b"")["id"], (record.key or b"").decode()) for record in written]
    assert sorted(found) == wanted
    sums: Counter[str] = Counter()
    for order in orders:
        sums[str(order["customer"])] += int(str(order["amount"]))
    summary = pq.read_table(directory / "spark-warehouse" / "amounts_by_customer").to_pylist()
    assert {row["customer"]: row["amount"] for row in summary} == sums
