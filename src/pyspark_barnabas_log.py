"""The name by which Spark finds `format("barnabas-log")`: a module `pyspark_*` that holds a `DefaultSource`."""

from barnabas_spark.log_source.log_data_source import BarnabasLogDataSource as DefaultSource

__all__ = ["DefaultSource"]
