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

    The import of this package sets those that are not set; this call also replaces a Java that does not suit, and says
    when there is none.
    """
    set_spark_environment(os.environ)


def register(spark: SparkSession) -> None:
    """Make the formats "barnabas" and "barnabas-log" known to a session that runs already, also one of Spark Connect.

    On this machine the session's workers become those of this Python. On a cluster the workers' Python is not this one:
    the environment there has to have the package, and PYSPARK_PYTHON has to name it before the session starts.
    """
    # pyspark is needed only here: `prepare` has to work before it is imported.
    from barnabas_spark.log_source.log_data_source import BarnabasLogDataSource  # noqa: PLC0415
    from barnabas_spark.source import BarnabasDataSource  # noqa: PLC0415

    # A session of Spark Connect has no context here: the server's Python runs the sources.
    if not _is_connect(spark):
        _name_python(spark)
    spark.dataSource.register(BarnabasDataSource)
    spark.dataSource.register(BarnabasLogDataSource)


def _is_connect(spark: SparkSession) -> bool:
    return type(spark).__module__.startswith("pyspark.sql.connect.")


def _name_python(spark: SparkSession) -> None:
    """Let the session's workers run a Python that has the package, unless one is named already."""
    context = spark.sparkContext
    # pyspark notes "python3" when the context is made and PYSPARK_PYTHON is not set.
    if context.pythonExec != "python3":
        return
    named = spark.conf.get("spark.pyspark.python", None)
    if named is not None:
        # spark-submit alone heeds this setting; a session that Python starts passes over it.
        context.pythonExec = named
    elif context.master.startswith("local"):
        context.pythonExec = sys.executable
    else:
        logger.warning(
            "the workers of %s run the python3 that is first on their PATH: set PYSPARK_PYTHON, before the session"
            " starts, to one with barnabas installed",
            context.master,
        )
