"""The result of the demo's pipeline as plain values: departure delays by carrier and hour of day.

`demo` and the flights' example read it, without Spark, from both places in which the pipeline has written it; `picture`
and the summary show it. Used on the main thread; immutable, no lock.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from barnabas.clients.consumer import fetch_table

FLIGHTS_TOPIC = "flights"
DELAYS_TOPIC = "departure-delays"
"""The topics of the pipeline file."""


class DelayCell(NamedTuple):
    """The flights of one carrier that were planned to leave in one hour of the day."""

    carrier: str
    hour: int
    flights: int
    """The planned flights: those that left and those that were cancelled."""
    cancelled: int
    """The flights that never left. They have no departure time, and do not count in the delays."""
    mean_delay: float | None
    """The mean in minutes. Early departures count as negative. None when all were cancelled."""
    p95_delay: float | None
    """The 95th percentile in minutes: 95 of 100 flights that left were no later."""

    @property
    def departed(self) -> int:
        """The number of flights that left."""
        return self.flights - self.cancelled


class Totals(NamedTuple):
    """The sums that must be equal at both ends of the pipeline."""

    flights: int
    cancelled: int


def totals(cells: Iterable[DelayCell]) -> Totals:
    """Return the sums over all cells."""
    counted = [(cell.flights, cell.cancelled) for cell in cells]
    return Totals(sum(flights for flights, _ in counted), sum(cancelled for _, cancelled in counted))


class CarrierSummary(NamedTuple):
    """All flights of one carrier."""

    carrier: str
    flights: int
    cancelled: int
    mean_delay: float

    @property
    def cancelled_share(self) -> float:
        """The share of cancelled flights, between 0 and 1."""
        return self.cancelled / self.flights


def by_carrier(cells: Iterable[DelayCell]) -> list[CarrierSummary]:
    """Return the sums of each carrier, the latest on average first."""
    grouped: defaultdict[str, list[DelayCell]] = defaultdict(list)
    for cell in cells:
        grouped[cell.carrier].append(cell)
    summaries = []
    for carrier, own in grouped.items():
        departed = sum(cell.departed for cell in own)
        delay_sum = sum((cell.mean_delay or 0.0) * cell.departed for cell in own)
        summaries.append(
            CarrierSummary(
                carrier,
                sum(cell.flights for cell in own),
                sum(cell.cancelled for cell in own),
                delay_sum / departed if departed else 0.0,
            )
        )
    return sorted(summaries, key=lambda summary: -summary.mean_delay)


def parquet_cells(directory: str) -> list[DelayCell]:
    """Return the result from the Parquet files. Raises OSError."""
    return _cells(pq.read_table(directory).to_pylist())


def topic_cells(bootstrap_servers: str) -> list[DelayCell]:
    """Return the result from the topic. Raises ApiError, ClientTimeout."""
    table = fetch_table(bootstrap_servers, DELAYS_TOPIC, isolation_level="read_committed", columns=["key", "value"])
    return last_cells(zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True))


def last_cells(records: Iterable[tuple[bytes | None, bytes | None]]) -> list[DelayCell]:
    """Return the result from keys and values in the topic's order: the last of each key, as compaction keeps it."""
    return _cells(json.loads(value or b"{}") for value in dict(records).values())


def _cells(rows: Iterable[dict[str, Any]]) -> list[DelayCell]:
    return sorted(DelayCell(**row) for row in rows)
