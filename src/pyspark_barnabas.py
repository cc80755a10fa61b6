"""The name by which Spark finds `format("barnabas")`: a module `pyspark_*` that holds a `DefaultSource`."""

from barnabas_spark.source import BarnabasDataSource as DefaultSource

__all__ = ["DefaultSource"]
