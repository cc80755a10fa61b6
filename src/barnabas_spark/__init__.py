"""The Spark data source: `spark.read`, `spark.readStream` and writers with `format("barnabas")`, without any jar.

Spark finds the source by the module `pyspark_barnabas`. Start at `source.BarnabasDataSource`. The broker never imports
this package.
"""
