"""The Spark data source: `spark.read`, `spark.readStream` and writers with `format("barnabas")`, without any jar.

Spark finds the source by the module `pyspark_barnabas`, and the log source by `pyspark_barnabas_log`. Start at
`source.BarnabasDataSource`. Users import from here, which also completes the environment of sessions that start later
(`registration`). The broker never imports this package.
"""

from barnabas_spark.registration import complete_environment, prepare, register, warn_of_running_session
from barnabas_spark.topic_offsets import query_lag
from barnabas_spark.topic_table import table

__all__ = ["prepare", "query_lag", "register", "table"]

complete_environment()
warn_of_running_session()
