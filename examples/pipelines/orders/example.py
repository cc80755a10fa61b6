"""Orders, and the customers who place them. Used by `examples.pipelines.run` and its test."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Iterator

from barnabas.clients.consumer import ConsumerRecord
from examples.pipelines.chart import Chart
from examples.pipelines.run import InputRecord

TOPICS = {"orders": 2, "customers": 1, "orders-by-country": 2, "orders-bad": 1}
RESULT = "orders-by-country"
ORDERS = 600
BAD = b'{"id": 601, "customer": '
"""An order that was cut off."""
COUNTRIES = ("AT", "BE", "CZ", "DK", "EE")
CUSTOMERS = 40


def countries() -> dict[str, str]:
    """Return each customer's country. Customer 0 has moved, and customer 1 is deleted."""
    found = {f"customer-{number}": COUNTRIES[number % len(COUNTRIES)] for number in range(CUSTOMERS)}
    found["customer-0"] = "EE"
    del found["customer-1"]
    return found


def orders() -> Iterator[tuple[int, str, int]]:
    """Yield id, customer and cents of each order."""
    chance = random.Random(14)
    for number in range(ORDERS):
        yield number, f"customer-{chance.randrange(CUSTOMERS)}", chance.randrange(100, 20_000)


def records() -> Iterator[InputRecord]:
    """Yield the customers, then the orders, one of them cut off."""
    yield InputRecord("customers", b"customer-0", b'{"country": "AT"}')
    yield InputRecord("customers", b"customer-1", b'{"country": "BE"}')
    for customer, country in countries().items():
        yield InputRecord("customers", customer.encode(), json.dumps({"country": country}).encode())
    yield InputRecord("customers", b"customer-1", None)
    for number, customer, cents in orders():
        value = {"id": number, "customer": customer, "cents": cents}
        yield InputRecord("orders", customer.encode(), json.dumps(value).encode())
    yield InputRecord("orders", b"customer-2", BAD)


def draw(result: list[ConsumerRecord], path: str) -> None:
    """Draw the sum of each country."""
    sums: defaultdict[str, float] = defaultdict(float)
    for record in result:
        row = json.loads(record.value or b"{}")
        sums[row["country"]] += row["euros"]
    chart = Chart("Euros by country")
    names = sorted(sums)
    chart.axes.bar(names, [sums[name] for name in names], color="#5b6ee1")
    chart.save(path)
