"""The log source: `format("barnabas-log")` reads the segment files of a data directory, without a broker.

Start at `log_data_source.BarnabasLogDataSource`. Only that module, `log_batch_reader`, `log_plan` and `sidecar_table`
need Spark.
"""
