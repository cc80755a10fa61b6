"""The pipelines of examples/pipelines, each in whole: what they write is computed here once more, without Spark.

`orders` runs in the tests' session, which is quick; the others run as users run them, in processes of their own.
"""

from __future__ import annotations

import datetime as dt
import itertools
import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from pyspark.sql import SparkSession

from barnabas.clients.consumer import ConsumerRecord
from barnabas_spark.demo.delay_table import Totals, totals
from examples.pipelines import run
from examples.pipelines.accounts import example as accounts
from examples.pipelines.clickstream import example as clickstream
from examples.pipelines.flights import example as flights
from examples.pipelines.orders import example as orders
from tests.spark.pipeline.pipeline_in_session import run_in_session

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


def rows(records: list[ConsumerRecord]) -> list[dict[str, Any]]:
    return [json.loads(record.value or b"{}") for record in records]


def test_orders_are_joined_with_their_customers(spark: SparkSession, tmp_path: Path) -> None:
    def run_here(bootstrap_servers: str, name: str, directory: str) -> None:
        path = os.path.join(run.HERE, name, "pipeline.yaml")
        run_in_session(spark, path, {"brokers": bootstrap_servers, "checkpoints": directory})

    with run.whole("orders", run=run_here) as outcome:
        (bad,) = run.committed(outcome.bootstrap_servers, "orders-bad", 1)
    assert (bad.key, bad.value) == (b"customer-2", orders.BAD)
    assert (dict(bad.headers)["error"] or b"").startswith(b"the value is no JSON: ")
    countries = orders.countries()
    expected = [
        {"id": number, "customer": customer, "country": countries.get(customer, "unknown"), "euros": cents / 100}
        for number, customer, cents in orders.orders()
    ]
    found = rows(outcome.records)
    assert sorted(found, key=lambda row: int(row["id"])) == expected
    assert {row["country"] for row in found} == {*orders.COUNTRIES, "unknown"}
    assert [(record.key or b"").decode() for record in outcome.records] == [row["country"] for row in found]
    orders.draw(outcome.records, str(tmp_path / "picture.svg"))
    assert "Euros by country" in (tmp_path / "picture.svg").read_text()


@pytest.mark.slow
def test_windows_have_every_click_but_those_that_are_too_late() -> None:
    five = dt.timedelta(minutes=5)
    clicks = list(clickstream.clicks())
    on_time = [click for click in clicks if not click.is_too_late]
    assert 0 < len(on_time) < len(clicks)
    views = Counter((click.at - (click.at - clickstream.START) % five, click.page) for click in on_time)
    watermark = max(click.at for click in clicks) - dt.timedelta(minutes=10)
    with run.whole("clickstream") as outcome:
        found = rows(outcome.records)
    # Each window once: it is written when it is finished.
    assert len({(row["from"], row["page"]) for row in found}) == len(found)
    told = {(dt.datetime.fromisoformat(row["from"]), row["page"]): row["views"] for row in found}
    assert told == {key: count for key, count in views.items() if key[0] + five <= watermark}


@pytest.mark.slow
def test_changes_are_folded_into_balances() -> None:
    expected: dict[str, dict[str, Any]] = {}
    last: dict[str, int] = {}
    repeated = refused = 0
    for change in accounts.changes():
        name = change["account"]
        row = expected.setdefault(name, {"account": name, "cents": 0, "changes": 0, "refused": 0})
        if change["number"] <= last.get(name, -1):
            repeated += 1
            continue
        last[name] = change["number"]
        if row["cents"] + change["cents"] < 0:
            row["refused"] += 1
            refused += 1
        else:
            row["cents"] += change["cents"]
            row["changes"] += 1
    assert min(repeated, refused) > 10
    with run.whole("accounts") as outcome:
        assert accounts.table(outcome.records) == expected


@pytest.mark.slow
def test_delays_are_the_same_in_the_topic_and_in_parquet() -> None:
    some = list(itertools.islice(flights.records(), 20_000))
    cancelled = sum(b'"dep_time":null' in (each.value or b"") for each in some)
    with run.whole("flights", some) as outcome:
        cells = flights.cells(outcome.records)
        table = pyarrow.parquet.read_table(f"{outcome.directory}/departure-delays.parquet").to_pylist()
    assert totals(cells) == Totals(20_000, cancelled)
    assert sorted(table, key=lambda row: (row["carrier"], row["hour"])) == sorted(
        (cell._asdict() for cell in cells), key=lambda row: (row["carrier"], row["hour"])
    )
