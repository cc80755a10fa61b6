"""The log source: `format("barnabas-log")` reads the segment files of a data directory, without a broker.

Start at `log_data_source.BarnabasLogDataSource`. Only `log_data_source`, `log_batch_reader` and `pushed_filters` need
Spark.
"""
