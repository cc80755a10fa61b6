"""A streaming source in Python that does nothing: what is left of its micro-batches is Spark's own.

Registered by `spark_source`; made by Spark in its Python processes on the driver and in the workers, which import it
from the directory in which the benchmark runs. Every micro-batch has as many tasks as the benchmark's topic has
partitions, and each task yields one row. No state but the options.
"""
# ruff: noqa: N802 the names are Spark's

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

FORMAT = "barnabas-benchmark-floor"


class FloorSource(DataSource):  # type: ignore[misc]  # pyspark has no types here
    """A source of `batches` micro-batches with `tasks` tasks each: two options."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format(...)`."""
        return FORMAT

    def schema(self) -> str:
        """Return the one column."""
        return "value binary"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the reader."""
        return _FloorReader(int(self.options["batches"]), int(self.options["tasks"]))


class _FloorReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Counts micro-batches."""

    def __init__(self, batches: int, tasks: int) -> None:
        self._batches = batches
        self._tasks = tasks

    def initialOffset(self) -> dict[str, int]:
        return {"batch": 0}

    def prepareForTriggerAvailableNow(self) -> None:
        pass

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, int]:
        return {"batch": min(start["batch"] + 1, self._batches)}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        return [InputPartition(number) for number in range(self._tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"value": pa.array([b"x" * 100], pa.binary())})
