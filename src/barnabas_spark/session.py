"""Makes a local Spark session, which finds its Java, writes nothing to the terminal and leaves no process behind.

Called by `pipeline.run.pipeline_session`, the demo, the examples and the tests, on the main thread. `local_session`
changes the process's environment (JAVA_HOME, PYSPARK_PYTHON; SPARK_HOME while the JVM starts) and, while the JVM
starts, its file descriptors 1 and 2; so call it once, before threads that print.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from socketserver import BaseServer
from subprocess import Popen, TimeoutExpired
from types import MappingProxyType
from typing import Any

from pyspark import SparkContext, java_gateway
from pyspark.sql import SparkSession

from barnabas_spark.java_home import set_spark_environment
from barnabas_spark.spark_home import quick_spark_home

_SOCKET_PATH_BYTES = 103
"""The longest path of a Unix domain socket: 103 bytes on macOS, 107 on Linux."""
_SOCKET_NAME_BYTES = len("/.00000000-0000-0000-0000-000000000000.sock")

VFORK = "-Djdk.lang.Process.launchMechanism=VFORK"
QUICK_START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""Java options for a session that lives for a minute: without the optimizing compiler it takes a third less CPU."""

_JVM_STOP_SECONDS = 5.0
_LOG_CONFIGURATION = """\
rootLogger.level = {level}
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {path}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d %p %c{{1}}: %m%n%ex
"""
_LOG_LEVEL = "warn"
_CONNECT_SECONDS = 120
"""How long the JVM and Python wait for each other's connections. Spark's 15 seconds are too few on a busy machine."""


@contextmanager
def local_session(
    name: str,
    work_dir: str,
    *,
    cores: int = 2,
    task_attempts: int = 1,
    driver_memory: str = "1g",
    java_options: Sequence[str] = (),
    settings: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[SparkSession]:
    """Yield a session on this machine, and stop it with its JVM at the end.

    `work_dir` gets everything that Spark writes by itself: `spark.log`, its scratch files, its warehouse.
    `java_options`, such as QUICK_START, go to the JVM. A task is run `task_attempts` times before its job fails: more
    than once outlives the loss of a Python worker, and repeats what is written at least once. Raises JavaNotFound.
    """
    work_dir = os.path.abspath(work_dir)
    os.makedirs(work_dir, exist_ok=True)
    set_spark_environment(os.environ)
    # The machine's own name may not resolve.
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # An installation elsewhere would be started instead of the package that is imported here.
    os.environ.pop("SPARK_HOME", None)
    log_path = os.path.join(work_dir, "spark.log")
    log_configuration = os.path.join(work_dir, "log4j2.properties")
    with open(log_configuration, "w", encoding="utf-8") as file:
        file.write(_LOG_CONFIGURATION.format(level=_LOG_LEVEL, path=log_path))
    builder = SparkSession.builder.master(f"local[{cores},{task_attempts}]").appName(name)
    defaults = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": driver_memory,
        "spark.driver.extraJavaOptions": " ".join(
            (f"-Dlog4j2.configurationFile=file:{log_configuration}", *quick_java_options(), *java_options)
        ),
        "spark.local.dir": os.path.join(work_dir, "scratch"),
        "spark.python.authenticate.socketTimeout": f"{_CONNECT_SECONDS}s",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.sql.warehouse.dir": os.path.join(work_dir, "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    # These loggers print traces on standard error, of interrupted calls and of exceptions that are raised anyway.
    for logger_name in ("SQLQueryContextLogger", "py4j"):
        logging.getLogger(logger_name).setLevel(logging.CRITICAL)
    # When the JVM has ended, py4j prints a trace by the root logger itself, and raises the exception all the same.
    logging.getLogger().addFilter(_is_not_of_py4j)
    with ExitStack() as stack:
        # Entered first, so that the directories are removed after the JVM has ended.
        sockets = stack.enter_context(worker_sockets())
        home = stack.enter_context(quick_spark_home())
        jvms = stack.enter_context(_started_jvms())
        for setting, value in {**defaults, **sockets, **settings}.items():
            builder = builder.config(setting, value)
        try:
            with _output_to(log_path), _home_of_spark(home):
                session = builder.getOrCreate()
            hide_lost_connections(session.sparkContext._accumulatorServer)  # noqa: SLF001 - there is no public name
            yield session
            session.stop()
        finally:
            _end_gateway(jvms)


def ended_jvm() -> int | None:
    """Return the exit status of the session's JVM if it has ended, negative after a signal, or None.

    To be asked when a call of the JVM has failed: its connections break a moment before its process has ended.
    """
    gateway = SparkContext._gateway  # noqa: SLF001
    if gateway is None:
        return None
    jvm: Popen[bytes] = gateway.proc
    try:
        return jvm.wait(_JVM_STOP_SECONDS)
    except TimeoutExpired:
        return None


def quick_java_options(platform: str = sys.platform) -> tuple[str, ...]:
    """Return the options by which the JVM starts programs quickly.

    Hadoop has no native code in pyspark, so for each file that Spark writes into a checkpoint it runs `chmod`, twice
    (for the file and its checksum): four processes for each micro-batch. Java 17 starts a process by way of a second
    program, `jspawnhelper`; with vfork it starts it directly. Java knows vfork on Linux only, and fails to start any
    program elsewhere.
    """
    return (VFORK,) if platform == "linux" else ()


@contextmanager
def worker_sockets(parent: str | None = None) -> Iterator[dict[str, str]]:
    """Yield the settings by which Python workers are reached through Unix domain sockets. No settings: by TCP.

    Spark's JVM and a Python worker talk through a TCP socket without TCP_NODELAY. The JVM writes what a task needs in
    two pieces. Nagle's algorithm holds the second one, which is small, back until the worker's kernel has acknowledged
    the first one, and the kernel delays that acknowledgement by 40 ms, because the worker has nothing to say yet. So
    every task of Python waits for 40 ms. A Unix domain socket has no such rules, and moves rows for less CPU.

    The sockets are in a directory of their own, below `parent` (None: the system's temporary directory), which only
    this user can enter: Spark does not ask for a password on such a socket.
    """
    parent = tempfile.gettempdir() if parent is None else parent
    with tempfile.TemporaryDirectory(prefix="barnabas-", dir=parent, ignore_cleanup_errors=True) as directory:
        fits = len(os.fsencode(directory)) + _SOCKET_NAME_BYTES <= _SOCKET_PATH_BYTES
        if not fits or not hasattr(socket, "AF_UNIX"):
            yield {}
            return
        yield {
            "spark.python.unix.domain.socket.enabled": "true",
            "spark.python.unix.domain.socket.dir": directory,
        }


def hide_lost_connections(server: BaseServer) -> None:
    """Keep pyspark's server of accumulators from printing a trace when its connection to the JVM ends with the JVM.

    The JVM may be killed, or ended here after an error. What has to be said of it, the caller of the session says.
    """
    handle_error = server.handle_error

    def handle_other_error(request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], EOFError | ConnectionError):
            handle_error(request, client_address)

    vars(server)["handle_error"] = handle_other_error


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    return os.sep + "py4j" + os.sep not in record.pathname


def _end_gateway(jvms: list[Popen[bytes]]) -> None:
    """End the JVM, and the Python workers with it, so that no process of the session survives.

    Called at the end, after an error, and when Ctrl-C comes at any moment, even while the session starts.
    """
    # pyspark itself leaves its JVM running until this process ends, and has no public way to stop it.
    gateway = SparkContext._gateway  # noqa: SLF001
    if gateway is not None:
        # The JVM may have ended already, or be in the middle of an interrupted call.
        with suppress(Exception):
            gateway.shutdown()
    SparkContext._gateway = None  # noqa: SLF001
    SparkContext._jvm = None  # noqa: SLF001
    SparkContext._active_spark_context = None  # noqa: SLF001
    SparkSession._instantiatedSession = None  # noqa: SLF001
    for jvm in jvms:
        _end_jvm(jvm)


def _end_jvm(jvm: Popen[bytes]) -> None:
    # A JVM that serves Python ends when its standard input does.
    if jvm.stdin is not None:
        with suppress(OSError):
            jvm.stdin.close()
    try:
        jvm.wait(_JVM_STOP_SECONDS)
    except TimeoutExpired:
        jvm.kill()
        jvm.wait()


@contextmanager
def _started_jvms() -> Iterator[list[Popen[bytes]]]:
    """Collect the JVMs that pyspark starts while the context is open.

    pyspark itself forgets a process whose start is interrupted.
    """
    started: list[Popen[bytes]] = []
    start = java_gateway.Popen

    def start_and_note(*args: Any, **options: Any) -> Popen[bytes]:
        jvm: Popen[bytes] = start(*args, **options)
        started.append(jvm)
        return jvm

    java_gateway.Popen = start_and_note
    try:
        yield started
    finally:
        java_gateway.Popen = start


@contextmanager
def _home_of_spark(home: str | None) -> Iterator[None]:
    """Let a JVM that starts in this context run from `home`, or from the installed package if that is None."""
    if home is not None:
        os.environ["SPARK_HOME"] = home
    try:
        yield
    finally:
        # Sessions that others start later are not ours, and must not find a directory that is gone.
        os.environ.pop("SPARK_HOME", None)


@contextmanager
def _output_to(path: str) -> Iterator[None]:
    """Let the JVM and the Python workers inherit `path` as standard output and error, if they start in this context."""
    sys.stdout.flush()
    sys.stderr.flush()
    with open(path, "ab") as file:
        # The descriptors are replaced, not `sys.stdout`: child processes inherit descriptors.
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
