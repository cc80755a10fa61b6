"""Payments into and out of accounts, some of them twice. Used by `examples.pipelines.run` and its test."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

from barnabas.clients.consumer import ConsumerRecord
from examples.pipelines.chart import Chart
from examples.pipelines.run import InputRecord

TOPICS = {"changes": 1, "balances": 2}
RESULT = "balances"
CHANGES = 900
ACCOUNTS = 25


def changes() -> Iterator[dict[str, Any]]:
    """Yield the changes: each account's are numbered from 0, and one in twenty is repeated later."""
    chance = random.Random(14)
    numbers = [0] * ACCOUNTS
    repeated: list[dict[str, Any]] = []
    for _ in range(CHANGES):
        if repeated and chance.random() < 0.05:
            yield repeated.pop(0)
            continue
        account = chance.randrange(ACCOUNTS)
        change = {
            "account": f"account-{account:02}",
            "number": numbers[account],
            "cents": chance.randrange(-6_000, 9_000),
        }
        numbers[account] += 1
        repeated.append(change)
        yield change


def records() -> Iterator[InputRecord]:
    """Yield the changes as JSON."""
    for change in changes():
        yield InputRecord("changes", change["account"].encode(), json.dumps(change).encode())


def table(result: list[ConsumerRecord]) -> dict[str, dict[str, Any]]:
    """Return the last record of each key: what compaction keeps."""
    return {(record.key or b"").decode(): json.loads(record.value or b"{}") for record in result}


def draw(result: list[ConsumerRecord], path: str) -> None:
    """Draw the balance of each account."""
    rows = sorted(table(result).items())
    chart = Chart("Euros on each account, after 900 changes")
    chart.axes.bar([name[-2:] for name, _ in rows], [row["cents"] / 100 for _, row in rows], color="#f3a65f")
    chart.save(path)
