"""The flights of `make demo`. Used by `examples.pipelines.run` and its test."""

from __future__ import annotations

from collections.abc import Iterator

from barnabas.clients.consumer import ConsumerRecord
from barnabas_spark.demo.delay_table import DelayCell, by_carrier, last_cells
from barnabas_spark.demo.flights import airline_names, flight_records
from examples.pipelines.chart import Chart
from examples.pipelines.run import InputRecord

TOPICS = {"flights": 4, "departure-delays": 1}
RESULT = "departure-delays"


def records() -> Iterator[InputRecord]:
    """Yield the flights. Raises DataMissing."""
    for flight in flight_records():
        yield InputRecord("flights", flight.key, flight.value)


def cells(result: list[ConsumerRecord]) -> list[DelayCell]:
    """Return the last row of each airline and hour."""
    return last_cells((record.key, record.value) for record in result)


def draw(result: list[ConsumerRecord], path: str) -> None:
    """Draw the mean delay of each airline."""
    names = airline_names()
    summaries = by_carrier(cells(result))
    chart = Chart("Mean departure delay of each airline, minutes")
    chart.axes.barh([names[each.carrier] for each in summaries][::-1], [each.mean_delay for each in summaries][::-1])
    chart.save(path)
