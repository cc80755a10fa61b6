"""`barnabas_spark.table`: a topic as a DataFrame, in one call, from a data directory or from a broker.

Called by users on the driver; no state, no lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PUSHDOWN_SETTING = "spark.sql.python.filterPushdown.enabled"


def table(
    spark: SparkSession,
    topic: str,
    *,
    path: str | None = None,
    bootstrap_servers: str | None = None,
    columns: Sequence[str] | None = None,
    push_filters: bool = False,
    **options: object,
) -> DataFrame:
    """Return the records of a topic, as of the moment each query of the DataFrame is planned.

    path: the data directories of the broker (`format("barnabas-log")`); bootstrap_servers: the broker itself
    (`format("barnabas")`). columns: those to read, which makes reading faster. options: of the format, by name.
    push_filters: let filters on topic, partition, offset and timestamp choose what is read. Only the first query of the
    DataFrame is answered rightly then, so call `table` for each; sets Spark's setting for it. Raises
    ValueError for arguments that do not fit together; the formats' errors come with the first query.
    """
    if (path is None) == (bootstrap_servers is None):
        raise ValueError("give either path (a data directory) or bootstrap_servers (host:port), and not both")
    if path is not None:
        reader = spark.read.format("barnabas-log").option("path", path).option("topic", topic)
    else:
        assert bootstrap_servers is not None
        reader = spark.read.format("barnabas").option("kafka.bootstrap.servers", bootstrap_servers)
        reader = reader.option("subscribe", topic)
    if push_filters:
        # Spark refuses a source that takes filters while this is off.
        spark.conf.set(PUSHDOWN_SETTING, "true")
        reader = reader.option("pushFilters", "true")
    for name, value in options.items():
        reader = reader.option(name, str(value))
    if columns is not None:
        reader = reader.schema(_schema(columns))
    return reader.load()


def _schema(columns: Sequence[str]) -> str:
    """Return the schema of these columns as text. Raises ValueError for an unknown name."""
    from barnabas_spark.columns import COLUMN_TYPES  # noqa: PLC0415 - the package is imported without Spark, too

    for name in columns:
        if name not in COLUMN_TYPES:
            raise ValueError(f"there is no column {name!r}; the columns are {', '.join(COLUMN_TYPES)}")
    return ", ".join(f"{name} {COLUMN_TYPES[name].simpleString()}" for name in columns)
