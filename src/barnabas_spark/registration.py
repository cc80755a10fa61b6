"""`barnabas_spark.prepare` and `barnabas_spark.register`: a plain SparkSession finds Java, this Python and the source.

Called by users on the driver's main thread. `prepare` changes the process's environment before a session starts;
`register` changes one session. No lock.
"""

from __future__ import annotations

import logging
import os
import sys
from typing import TYPE_CHECKING

from barnabas_spark.java_home import set_spark_environment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)


def prepare() -> None:
    """Set JAVA_HOME and PYSPARK_PYTHON for the sessions of this process that start later. Raises JavaNotFound.

    Without it, Spark takes the `java` and the `python3` that are first on the PATH, which in an IDE, a notebook or a
    cron job are not those of the environment in which this package is installed.
    """
    set_spark_environment(os.environ)


def register(spark: SparkSession) -> None:
    """Make `format("barnabas")` known to a session that runs already, whatever `python3` is first on the PATH.

    On a cluster the workers' Python is not this one: the environment there has to have the package, and the setting
    `spark.pyspark.python` or PYSPARK_PYTHON has to name it.
    """
    # pyspark is needed only here: `prepare` has to work before it is imported.
    from barnabas_spark.source import BarnabasDataSource  # noqa: PLC0415

    context = spark.sparkContext
    if "PYSPARK_PYTHON" not in os.environ and spark.conf.get("spark.pyspark.python", None) is None:
        if context.master.startswith("local"):
            # pyspark has noted "python3" when the context was made, and starts its workers with that.
            context.pythonExec = sys.executable
        else:
            logger.warning(
                "the workers of %s run the python3 that is first on their PATH: set spark.pyspark.python to one with"
                " barnabas installed",
                context.master,
            )
    spark.dataSource.register(BarnabasDataSource)
