"""Whole runs of `barnabas pipeline`, each in a process of its own."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.spark.committed_records import committed_records, committed_values
from tests.spark.pipeline.shop import Shop, expected, orders

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


@pytest.fixture
def shop(tmp_path: Path, bootstrap_servers: str, new_topic: Callable[[int], str]) -> Shop:
    return Shop(tmp_path, bootstrap_servers, new_topic)


def test_records_go_through_and_bad_ones_aside(shop: Shop) -> None:
    shop.write()
    shop.produce([*orders(range(50)), b"{bad"])
    shop.said("run")
    assert committed_values(shop.bootstrap_servers, shop.target, 2) == expected(range(50))
    (bad,) = committed_records(shop.bootstrap_servers, shop.bad, 1)
    assert bad.value == b"{bad"
    assert dict(bad.headers)["topic"] == shop.source.encode()
    said = shop.said("status")
    assert said.startswith("shop: finished\n")
    assert f"topic {shop.target}" in said


@pytest.mark.slow
def test_a_bad_record_without_a_place_for_it_fails_the_run(shop: Shop) -> None:
    shop.write(dead_letters=False)
    shop.produce([*orders(range(20)), b"{bad"], partition=1)
    said = shop.said("run", status=1)
    assert "shop.yaml:14: out failed in micro-batch 0, which reads up to" in said
    reason = "the value is no JSON: Expecting property name enclosed in double quotes, at character 1"
    assert f"{shop.source}-1, offset 20: {reason}: {{bad" in said
    assert "Traceback" not in said
    assert shop.said("status", status=1).startswith("shop: failed: ")
    assert committed_values(shop.bootstrap_servers, shop.target, 2) == []
    # The file is mended: the next run goes on with the micro-batch that failed.
    shop.write()
    shop.said("run")
    assert committed_values(shop.bootstrap_servers, shop.target, 2) == expected(range(20))


_KILLED_ONCE = """\
import os, signal
from pyspark.sql import functions as sql

@sql.udf("bigint")
def fragile(number):
    if number == 7 and not os.path.exists({flag!r}):
        open({flag!r}, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return number

def checked(orders):
    return orders.withColumn("id", fragile("id")).select("id", (orders.amount * 2).alias("double"))
"""


@pytest.mark.slow
def test_a_python_worker_that_is_killed_costs_its_task_and_not_the_run(shop: Shop, tmp_path: Path) -> None:
    flag = tmp_path / "was-killed"
    (tmp_path / "steps.py").write_text(_KILLED_ONCE.format(flag=str(flag)))
    shop.write(transform='{python: "steps.py:checked", inputs: [orders]}')
    shop.produce(orders(range(30)))
    shop.said("run")
    assert flag.exists()
    written = [json.loads(value or b"") for value in committed_values(shop.bootstrap_servers, shop.target, 2)]
    assert sorted(row["id"] for row in written) == list(range(30))


@pytest.mark.slow
def test_a_continuous_run_is_shown_and_stopped(shop: Shop) -> None:
    shop.write(trigger="continuous")
    shop.produce(orders(range(20)))
    assert shop.said("stop", status=1) == "barnabas: shop does not run\n"
    assert shop.said("status") == "shop: has never run\n"
    with shop.started("run") as process:
        while committed_values(shop.bootstrap_servers, shop.target, 2) != expected(range(20)):
            assert process.poll() is None
            time.sleep(0.2)
        shop.produce(orders(range(20, 40)))
        while committed_values(shop.bootstrap_servers, shop.target, 2) != expected(range(40)):
            assert process.poll() is None
            time.sleep(0.2)
        assert f"running, process {process.pid}" in shop.said("status")
        assert f"runs already, as process {process.pid}" in shop.said("run", status=1)
        assert shop.said("stop", "--timeout", "120") == "shop: stopped\n"
        assert process.wait() == 0
    assert shop.said("status").startswith("shop: stopped\n")


@pytest.mark.slow
def test_a_dry_run_asks_for_topics_and_writes_nothing(shop: Shop) -> None:
    shop.write()
    shop.produce(orders(range(20)))
    assert f"out: topic {shop.source} -> topic {shop.target}; is new" in shop.said("run", "--dry-run")
    shop.target = "missing"
    shop.write()
    assert "shop.yaml:14: there is no topic 'missing' at" in shop.said("run", "--dry-run", status=1)


@pytest.mark.slow
@pytest.mark.timeout(3_000)
@pytest.mark.parametrize("seed", range(3))
def test_every_record_is_there_once_however_often_the_run_is_killed(shop: Shop, seed: int) -> None:
    """Each run is killed, with Spark's processes, at some moment after the first micro-batches have begun."""
    chance = random.Random(seed)
    shop.write()
    shop.produce(orders(range(1_000)))
    for _ in range(3):
        with shop.started("run") as process:
            before = shop.planned_batches()
            while shop.planned_batches() == before and process.poll() is None:
                time.sleep(0.05)
            time.sleep(chance.uniform(0, 3))
    shop.said("run")
    assert committed_values(shop.bootstrap_servers, shop.target, 2) == expected(range(1_000))
