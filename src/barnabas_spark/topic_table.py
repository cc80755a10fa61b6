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
    spark_reads_sidecars: bool = False,
    **options: object,
) -> DataFrame:
    """Return the records of a topic, as of the moment each query of the DataFrame is planned.

    path: the data directories of the broker (`format("barnabas-log")`); bootstrap_servers: the broker itself
    (`format("barnabas")`). columns: those to read, which makes reading faster. options: of the format, by name.
    push_filters: let filters on topic, partition, offset and timestamp choose what is read. Only the first query of the
    DataFrame is answered rightly then, so call `table` for each; sets Spark's setting for it. spark_reads_sidecars,
    with `path`: Spark itself reads the sidecars, which is faster; the rows are those of the moment of this call. Raises
    ValueError for arguments that do not fit together; the formats' errors come with the first query.
    """
    if (path is None) == (bootstrap_servers is None):
        raise ValueError("give either path (a data directory) or bootstrap_servers (host:port), and not both")
    if spark_reads_sidecars and path is None:
        raise ValueError("spark_reads_sidecars needs path: the sidecars lie beside the log files")
    given = {"subscribe": topic}
    if path is not None:
        given = {"path": path, "topic": topic}
    elif bootstrap_servers is not None:
        given["kafka.bootstrap.servers"] = bootstrap_servers
    if push_filters:
        # Spark refuses a source that takes filters while this is off.
        spark.conf.set(PUSHDOWN_SETTING, "true")
        given["pushFilters"] = "true"
    given |= {name: str(value) for name, value in options.items()}
    if spark_reads_sidecars:
        from barnabas_spark.log_source.sidecar_table import sidecar_table  # noqa: PLC0415 - needs pyarrow

        return sidecar_table(spark, given, None if columns is None else _known(columns))
    reader = spark.read.format("barnabas" if path is None else "barnabas-log").options(**given)
    if columns is not None:
        reader = reader.schema(_schema(columns))
    return reader.load()


def _known(columns: Sequence[str]) -> Sequence[str]:
    """Return the columns. Raises ValueError for an unknown name."""
    from barnabas_spark.columns import COLUMN_TYPES  # noqa: PLC0415 - the package is imported without Spark, too

    for name in columns:
        if name not in COLUMN_TYPES:
            raise ValueError(f"there is no column {name!r}; the columns are {', '.join(COLUMN_TYPES)}")
    return columns


def _schema(columns: Sequence[str]) -> str:
    """Return the schema of these columns as text. Raises ValueError for an unknown name."""
    from barnabas_spark.columns import COLUMN_TYPES  # noqa: PLC0415 - the package is imported without Spark, too

    return ", ".join(f"{name} {COLUMN_TYPES[name].simpleString()}" for name in _known(columns))
