"""How many modules of ours a process loads for one purpose: the numbers beside the programs may only fall.

A command, and each of the processes that Spark starts for a query, is over after a second or less. Most of that second
goes into imports, so what a purpose does not need is imported where it is used.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.requirements import need

_READ = """
from barnabas.clients.errors import ClientTimeout
from barnabas_spark.reading.offset_ranges import OffsetRange, RangePartition
from barnabas_spark.source import BarnabasDataSource
from pyspark.sql.streaming.datasource import ReadAllAvailable

# No broker: what asks one fails at once.
source = BarnabasDataSource({
    "kafka.bootstrap.servers": "127.0.0.1:9", "subscribe": "t", "startingOffsets": "earliest",
    "kafka.bootstrap.timeout.ms": "1", "kafka.default.api.timeout.ms": "1", "kafkaConsumer.pollTimeoutMs": "1",
})
"""
_WRITE = """
from barnabas_spark.source import BarnabasDataSource
from pyspark.sql.types import StructType

source = BarnabasDataSource({"kafka.bootstrap.servers": "127.0.0.1:9", "topic": "t"})
writer = source.writer(StructType().add("value", "binary"), overwrite=False)
"""
_PLAN = """
try:
    source.streamReader(source.schema()).latestOffset({}, ReadAllAvailable())
except ClientTimeout:
    pass
"""
_FETCH = """
from barnabas_spark.reading.partition_reader import ReadTimeout
try:
    next(iter(source.reader(source.schema()).read(RangePartition((OffsetRange("t", 0, 0, 1),)))))
except ReadTimeout:
    pass
"""
_BROKER = """
import tempfile
import barnabas.cli.main
from barnabas.broker.broker_server import BrokerServer
from barnabas.cli.serve import read_config

place = tempfile.TemporaryDirectory()
BrokerServer(read_config(None, (), place.name, ("PLAINTEXT://127.0.0.1:0",))).startup()
"""
"""Until it is ready: a module that its start imports a moment later counts as well."""


class Program(NamedTuple):
    """A program, and how many modules of `barnabas` and `barnabas_spark` it may load."""

    code: str
    most: int
    needs_spark: bool = False


_COMMAND = """
import sys
from barnabas.cli.main import main

sys.argv = ["barnabas", {arguments}]
try:
    main()
except SystemExit:
    pass
"""


def command(*arguments: str) -> str:
    """Return a program that is a command; what it prints comes before the modules."""
    return _COMMAND.format(arguments=", ".join(map(repr, arguments)))


PROGRAMS = {
    "broker": Program(_BROKER, 340),
    "help": Program(command("--help"), 4),
    "topics list": Program(command("topics", "list", "--bootstrap-server", "127.0.0.1:9", "--timeout", "0.1"), 133),
    "test kit": Program("from barnabas.testing import broker", 8),
    "admin client": Program("import barnabas.clients.admin", 122),
    "consumer": Program("import barnabas.clients.consumer", 153),
    "producer": Program("import barnabas.clients.producer", 115),
    "Spark: look-up of the sources": Program("import pyspark_barnabas, pyspark_barnabas_log", 28, True),
    "Spark: planner of a stream": Program(_READ + _PLAN, 101, True),
    "Spark: worker of a source": Program(_READ + _FETCH, 120, True),
    "Spark: driver of a sink": Program(_WRITE + "writer.commit([])", 39, True),
    "Spark: worker of a sink": Program(_WRITE + "writer.write(iter([]))", 144, True),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_more_is_imported_than_is_needed(name: str, tmp_path: Path) -> None:
    program = PROGRAMS[name]
    if program.needs_spark:
        need(importlib.util.find_spec("pyspark"), "pyspark is not installed")
    # Ended at once: a broker still runs, and its stop imports more.
    show = (
        "import os, sys\n"
        "print(*(m for m in sys.modules if m.partition('.')[0] in ('barnabas', 'barnabas_spark')), flush=True)\n"
        "os._exit(0)"
    )
    shown = subprocess.run(
        [sys.executable, "-c", f"{program.code}\n{show}"],
        # As in the processes that Spark starts.
        env=os.environ
        | {"TMPDIR": str(tmp_path)}
        | ({"SPARK_PYTHON_RUNTIME": "PYTHON_WORKER"} if program.needs_spark else {}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert shown.returncode == 0, shown.stderr
    loaded = sorted(shown.stdout.splitlines()[-1].split())
    assert len(loaded) <= program.most, f"{len(loaded)} modules instead of {program.most}: {loaded}"
    # A test that lets more in than there is would not notice the next ten.
    assert len(loaded) > program.most - 5, f"write {len(loaded)} instead of {program.most}"
