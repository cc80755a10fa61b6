"""Makes a home of Spark whose Python processes start quickly, because their pyspark has bytecode.

Called by `session` before the JVM starts, on the main thread; the directory belongs to one session, so no lock.

Spark puts `python/lib/pyspark.zip` of its home in front of all that its Python processes import, and starts several of
them for each query. The archive has no bytecode, and what comes from an archive is compiled anew in each process: that
is most of the CPU which such a process takes. So the home that is made here has links to all of the installed one, but
directories in the place of the archives of Python, with links to the installed packages.
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import py4j
import pyspark

logger = logging.getLogger(__name__)

_DISTRIBUTION = "spark-distribution"
"""Where pyspark has another Spark than its own, if it was installed with PYSPARK_HADOOP_VERSION."""


@contextmanager
def quick_spark_home(installed: str | None = None) -> Iterator[str | None]:
    """Yield the home, and remove it. None: Spark's own home has to do.

    installed: the directory of pyspark.
    """
    installed = os.path.dirname(pyspark.__file__) if installed is None else installed
    if not os.path.isdir(os.path.join(installed, "jars")) or os.path.exists(os.path.join(installed, _DISTRIBUTION)):
        # This pyspark came with a Spark that runs already, or that is elsewhere.
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="barnabas-", ignore_cleanup_errors=True) as home:
        yield home if _is_linked(installed, home) else None


def _is_linked(installed: str, home: str) -> bool:
    try:
        _link(installed, home, but="python")
        _link(os.path.join(installed, "python"), os.path.join(home, "python"), but="lib")
        packages = {"pyspark": installed, "py4j": os.path.dirname(py4j.__file__)}
        for archive in os.listdir(os.path.join(installed, "python", "lib")):
            # pyspark.zip, py4j-0.10.9.9-src.zip
            package = archive.removesuffix(".zip").partition("-")[0]
            if package in packages:
                directory = os.path.join(home, "python", "lib", archive)
                os.makedirs(directory)
                os.symlink(packages[package], os.path.join(directory, package))
    except OSError as error:
        # Such as a file system without symbolic links. Spark starts from its own home then, and works as well.
        logger.debug("no home for Spark with links to %s: %s", installed, error)
        return False
    return True


def _link(source: str, target: str, *, but: str) -> None:
    os.makedirs(target, exist_ok=True)
    for name in os.listdir(source):
        if name != but:
            os.symlink(os.path.join(source, name), os.path.join(target, name))
