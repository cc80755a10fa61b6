"""Reads what the demo's pipeline has written, in both places, without Spark.

Called by `demo` and the flights' example on the main thread. No state, no lock.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pyarrow.parquet as pq

from barnabas.clients.consumer import fetch_table
from barnabas_spark.demo.delay_table import DelayCell

FLIGHTS_TOPIC = "flights"
DELAYS_TOPIC = "departure-delays"
"""The topics of the pipeline file."""


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
