"""A topic as a DataFrame whose sidecars are read by Spark itself, and whose other records by the log source.

Called by `topic_table` on the driver. It looks at the disk once, so the rows are those of that moment; no lock.

Rows of a Python source go through Arrow into the JVM, which makes each into a row of Spark's own form: most of what a
row costs. Spark's Parquet reader works by columns, in the JVM, in compiled code, and passes over row groups by itself.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import groupby
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql.functions import array, col
from pyspark.sql.types import StructField, StructType

from barnabas.protocol.topic_partition import TopicPartition, by_topic
from barnabas.runtime.files import Files, OperatingSystemFiles
from barnabas.storage.readonly.log_split import LogSplit
from barnabas_spark.columns import COLUMN_TYPES, HEADERS, default_schema
from barnabas_spark.log_source.log_options import LogSourceOptions
from barnabas_spark.log_source.log_plan import plan_splits
from barnabas_spark.log_source.sidecars import current_sidecar, offsets_of
from barnabas_spark.options.option_values import OptionError
from barnabas_spark.reading.offset_ranges import OffsetRange
from barnabas_spark.reading.row_bounds import ALL_ROWS
from barnabas_spark.topic_offsets import offsets_to_json

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

_WHOLE_SEGMENT_BYTES = 1 << 62
_CHOICES_OF_TOPICS = ("assign", "subscribe", "subscribepattern", "topic")
_POSITIONS = ("starting", "ending")
"""How the options of the log source begin, in small letters, that the plan has used, like the ones above."""
_PATTERN_CHARACTERS = re.compile(r"[\\{}\[\]*?]")


@dataclass(slots=True)
class SidecarPlan:
    """What Spark reads of sidecars, and what is left to the log source, by partition."""

    paths: list[str] = field(default_factory=list)
    cuts: dict[TopicPartition, OffsetRange] = field(default_factory=dict)
    """The range of each partition whose sidecars hold records outside of it, too."""
    rest: dict[TopicPartition, OffsetRange] = field(default_factory=dict)

    @classmethod
    def of(cls, splits: Iterable[LogSplit], files: Files) -> SidecarPlan:
        """Plan splits of whole segments, in order. Raises OSError.

        The log source takes one range of a partition. So it reads all behind the first segment that has no sidecar, or
        has records of aborted transactions to leave out.
        """
        plan = cls()
        for key, of_partition in groupby(splits, lambda split: split.topic_partition):
            plan._take(key, list(of_partition), files)
        return plan

    def _take(self, key: TopicPartition, splits: Sequence[LogSplit], files: Files) -> None:
        served: list[str] = []
        for split in splits:
            path = None if split.aborted else current_sidecar(split.path, files)
            if path is None:
                self.rest[key] = OffsetRange(*key, split.start_offset, splits[-1].end_offset)
                break
            served.append(path)
        if served:
            first, last = splits[0], splits[len(served) - 1]
            if offsets_of(served[0]).first < first.start_offset or offsets_of(served[-1]).last >= last.end_offset:
                self.cuts[key] = OffsetRange(*key, first.start_offset, last.end_offset)
            self.paths += served


def sidecar_table(spark: SparkSession, given: Mapping[str, str], columns: Sequence[str] | None) -> DataFrame:
    """Return the rows that the log source would give now for these options.

    columns: known names, or None for those that the log source has by itself. Raises OptionError, LogUnreadable,
    OSError.
    """
    options = LogSourceOptions.parse(given)
    if not options.use_sidecars:
        raise OptionError("option 'sidecars' is false, and Spark is to read the sidecars: leave out one of the two")
    schema = default_schema(options.include_headers is True)
    if columns is not None:
        schema = StructType([StructField(name, COLUMN_TYPES[name]) for name in columns])
    files = OperatingSystemFiles(read_only=True)
    splits = plan_splits(replace(options, split_bytes=_WHOLE_SEGMENT_BYTES), ALL_ROWS, files)
    plan = SidecarPlan.of(splits, files)
    frames = []
    if plan.paths:
        frames.append(_of_sidecars(spark, plan, options, schema.fieldNames()))
    if plan.rest:
        frames.append(_of_segments(spark, plan, given, schema))
    return reduce(DataFrame.unionAll, frames) if frames else spark.createDataFrame([], schema)


def _of_sidecars(
    spark: SparkSession, plan: SidecarPlan, options: LogSourceOptions, columns: Sequence[str]
) -> DataFrame:
    stored = StructType([StructField(name, kind) for name, kind in COLUMN_TYPES.items()])
    frame = (
        spark.read.schema(stored)
        .option("parquet.page.verify-checksum.enabled", options.check_crcs)
        # Without this, Spark refuses timestamps before 1900 in files that name no calendar.
        .option("datetimeRebaseMode", "CORRECTED")
        .parquet(*(_hadoop_path(path) for path in plan.paths))
    )
    for cut in plan.cuts.values():
        frame = frame.where(_leaves_out_the_rest(cut))
    if options.include_headers is False and HEADERS in columns:
        frame = frame.withColumn(HEADERS, array().cast(COLUMN_TYPES[HEADERS]))
    return frame.select(*columns)


def _hadoop_path(path: str) -> str:
    """Return a path for Spark's readers, which take patterns, and without a scheme may look in another file system."""
    return "file:" + _PATTERN_CHARACTERS.sub(r"\\\g<0>", os.path.abspath(path))


def _leaves_out_the_rest(cut: OffsetRange) -> Column:
    """Return the condition that is false for the rows of the partition outside of the range."""
    elsewhere = (col("topic") != cut.topic) | (col("partition") != cut.partition)
    return elsewhere | ((col("offset") >= cut.start) & (col("offset") < cut.end))


def _of_segments(spark: SparkSession, plan: SidecarPlan, given: Mapping[str, str], schema: StructType) -> DataFrame:
    """Return the rows behind the sidecars, up to the planned ends."""
    reader = spark.read.format("barnabas-log").schema(schema)
    for name, value in given.items():
        if name.lower() not in _CHOICES_OF_TOPICS and not name.lower().startswith(_POSITIONS):
            reader = reader.option(name, value)
    starts = {key: each.start for key, each in plan.rest.items()}
    ends = {key: each.end for key, each in plan.rest.items()}
    return (
        reader.option("assign", json.dumps(by_topic(plan.rest)))
        .option("startingOffsets", json.dumps(offsets_to_json(starts)))
        .option("endingOffsets", json.dumps(offsets_to_json(ends)))
        .load()
    )
