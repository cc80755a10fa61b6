"""Lets a plain SparkSession find Java, this Python and the source: by the import of the package, or by a call.

`import barnabas_spark` calls `complete_environment` and `warn_of_running_session`, once in each process, on the
importing thread. Users call `prepare` and `register` on the driver's main thread. `register` changes one session; the
others change nothing but the process's environment, before a session starts. No lock.

Spark asks the `python3` that is first on the PATH which sources there are, and runs its workers with it. In an IDE, a
notebook, a cron job, or a program that is started as `venv/bin/python app.py`, that is another Python, without this
package. Nothing in a package can be found by it, so this Python is named before the session starts, by PYSPARK_PYTHON.
See docs/decisions/0075-the-import-names-this-python.md.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
from collections.abc import MutableMapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


logger = logging.getLogger(__name__)

_PYTHON_VARIABLES = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")


def complete_environment(environment: MutableMapping[str, str] = os.environ, cache_dir: str | None = None) -> None:
    """Set PYSPARK_PYTHON and JAVA_HOME for sessions that start later, if they are not set and would be needed.

    Nothing is set in Spark's own Python processes, nor where spark-submit or the shell has started Spark already: it
    is configured by their settings. No program is started, so that the import stays quick.
    """
    if "PYSPARK_GATEWAY_PORT" in environment or environment.get("SPARK_PYTHON_RUNTIME") == "PYTHON_WORKER":
        return
    if sys.executable and not any(environment.get(name) for name in _PYTHON_VARIABLES):
        environment["PYSPARK_PYTHON"] = sys.executable
    if not environment.get("JAVA_HOME"):
        # Imported when used: Spark's own processes come no further than the first lines.
        from barnabas_spark.java_home import JavaNotFound, java_home_at_once  # noqa: PLC0415

        try:
            home = java_home_at_once(environment, cache_dir)
        except (JavaNotFound, OSError) as error:
            # Not an error of the import: this process may never start Spark.
            logger.debug("no JAVA_HOME for Spark: %s", error)
            return
        if home is not None:
            environment["JAVA_HOME"] = home


def warn_of_running_session() -> None:
    """Warn if a local session runs already that would not find the source, which `register` mends."""
    context_module = sys.modules.get("pyspark.core.context")
    context = None if context_module is None else context_module.SparkContext._active_spark_context  # noqa: SLF001
    # pyspark notes "python3" when the context is made and PYSPARK_PYTHON is not set.
    if context is None or context.pythonExec != "python3" or not context.master.startswith("local"):
        return
    found = shutil.which("python3")
    if found is None or os.path.dirname(found) != os.path.dirname(sys.executable):
        logger.warning(
            "a Spark session runs already, with the Python %s instead of this one: call barnabas_spark.register(spark),"
            " or import barnabas_spark before the session is built",
            found or "python3, which is not on the PATH",
        )


def prepare() -> None:
    """Set JAVA_HOME and PYSPARK_PYTHON for the sessions of this process that start later. Raises JavaNotFound.

    The import of this package sets those that are not set; this call also replaces a Java that does not suit, and says
    when there is none.
    """
    from barnabas_spark.java_home import set_spark_environment  # noqa: PLC0415 as above

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
