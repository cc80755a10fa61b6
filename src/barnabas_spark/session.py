"""A local Spark session that keeps to itself: Java found, nothing on the terminal, nothing left behind.

Called by the demo, the examples and the tests, on the main thread. `local_session` changes the process's environment
(JAVA_HOME, PYSPARK_PYTHON) and, while the JVM starts, its file descriptors 1 and 2; so call it once, before threads
that print.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from subprocess import Popen, TimeoutExpired
from types import MappingProxyType

from pyspark import SparkContext
from pyspark.sql import SparkSession

from barnabas_spark.java_home import set_spark_environment

_JVM_STOP_SECONDS = 10.0
_LOG_CONFIGURATION = """\
rootLogger.level = {level}
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {path}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d %p %c{{1}}: %m%n%ex
"""


@contextmanager
def local_session(
    name: str,
    work_dir: str,
    *,
    cores: int = 2,
    driver_memory: str = "1g",
    log_level: str = "warn",
    settings: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[SparkSession]:
    """A session on this machine, stopped with its JVM at the end.

    `work_dir` gets everything Spark writes by itself: `spark.log`, its scratch files, its warehouse. Raises
    JavaNotFound.
    """
    work_dir = os.path.abspath(work_dir)
    os.makedirs(work_dir, exist_ok=True)
    set_spark_environment(os.environ)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # the machine's name may lead nowhere
    # An installation elsewhere would be started instead of the package that is imported here.
    os.environ.pop("SPARK_HOME", None)
    log_path = os.path.join(work_dir, "spark.log")
    log_configuration = os.path.join(work_dir, "log4j2.properties")
    with open(log_configuration, "w", encoding="utf-8") as file:
        file.write(_LOG_CONFIGURATION.format(level=log_level, path=log_path))
    builder = SparkSession.builder.master(f"local[{cores}]").appName(name)
    defaults = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": driver_memory,
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{log_configuration}",
        "spark.local.dir": os.path.join(work_dir, "scratch"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.sql.warehouse.dir": os.path.join(work_dir, "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    for setting, value in {**defaults, **settings}.items():
        builder = builder.config(setting, value)
    # It prints every error's Java trace on standard error, besides raising it.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    with _output_to(log_path):
        session = builder.getOrCreate()
    try:
        yield session
    finally:
        stop_session(session)


def stop_session(session: SparkSession) -> None:
    """Stop the session and its JVM, and with that the Python workers: nothing of it survives."""
    gateway = SparkContext._gateway  # noqa: SLF001 pyspark has no other way to end its JVM before the process ends
    process: Popen[bytes] | None = getattr(gateway, "proc", None)
    try:
        # A JVM that is gone already, or a call that was interrupted, must not keep the rest from being stopped.
        with suppress(Exception):
            session.stop()
        if gateway is not None:
            with suppress(Exception):
                gateway.shutdown()
    finally:
        SparkContext._gateway = None  # noqa: SLF001
        SparkContext._jvm = None  # noqa: SLF001
        if process is not None:
            _end(process)


def _end(process: Popen[bytes]) -> None:
    # The JVM ends when its standard input does.
    if process.stdin is not None:
        with suppress(OSError):
            process.stdin.close()
    try:
        process.wait(_JVM_STOP_SECONDS)
    except TimeoutExpired:
        process.kill()
        process.wait()


@contextmanager
def _output_to(path: str) -> Iterator[None]:
    """Let what is started meanwhile inherit `path` as standard output and error: the JVM, and its Python workers."""
    sys.stdout.flush()
    sys.stderr.flush()
    with open(path, "ab") as file:
        saved = os.dup(1), os.dup(2)
        try:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
            yield
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for descriptor, original in zip((1, 2), saved, strict=True):
                os.dup2(original, descriptor)
                os.close(original)
