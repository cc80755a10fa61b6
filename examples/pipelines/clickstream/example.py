"""A morning of clicks: some come minutes late, a few hours late. Used by `examples.pipelines.run` and its test."""

from __future__ import annotations

import datetime as dt
import json
import random
from collections.abc import Iterator
from typing import NamedTuple

from barnabas.clients.consumer import ConsumerRecord
from examples.pipelines.chart import Chart
from examples.pipelines.run import InputRecord

TOPICS = {"clicks": 1, "page-views": 2}
RESULT = "page-views"
PAGES = ("/", "/basket", "/checkout", "/search")

CLICKS = 2_000
LATEST_MINUTES = 8
"""How late a click comes that still counts: less than the watermark's ten minutes."""
START = dt.datetime(2026, 3, 1, 8, tzinfo=dt.UTC)


class Click(NamedTuple):
    """One click."""

    visitor: str
    page: str
    at: dt.datetime
    is_too_late: bool
    """Whether it comes hours after its time."""


def clicks() -> Iterator[Click]:
    """Yield the clicks as they arrive: about ten a minute."""
    chance = random.Random(14)
    for number in range(CLICKS):
        arrival = START + dt.timedelta(seconds=6 * number)
        # A micro-batch drops by the watermark of the one before the last: all that is hours late after two of 500.
        is_too_late = number >= 1_000 and chance.random() < 0.02
        delay = dt.timedelta(minutes=150 if is_too_late else chance.choice((0, 0, 0, 1, LATEST_MINUTES)))
        page = chance.choices(PAGES, (6, 2, 1, 3))[0]
        yield Click(f"visitor-{chance.randrange(80)}", page, arrival - delay, is_too_late)


def records() -> Iterator[InputRecord]:
    """Yield the clicks as JSON."""
    for click in clicks():
        value = {"visitor": click.visitor, "page": click.page, "at": click.at.isoformat()}
        yield InputRecord("clicks", click.visitor.encode(), json.dumps(value).encode())


def draw(result: list[ConsumerRecord], path: str) -> None:
    """Draw the views of each page by window."""
    rows = sorted((json.loads(record.value or b"{}") for record in result), key=lambda row: str(row["from"]))
    chart = Chart("Views in windows of five minutes, as far as the watermark has come")
    for page in PAGES:
        own = [row for row in rows if row["page"] == page]
        chart.axes.plot([row["from"][11:16] for row in own], [row["views"] for row in own], marker="o", label=page)
    chart.axes.tick_params(axis="x", rotation=60)
    chart.axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    chart.save(path)
