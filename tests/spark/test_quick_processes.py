"""Python workers are reached through Unix domain sockets where these fit, and vfork is asked for on Linux only."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from barnabas_spark.session import VFORK, quick_java_options, worker_sockets

ENABLED = "spark.python.unix.domain.socket.enabled"
DIRECTORY = "spark.python.unix.domain.socket.dir"


def test_the_sockets_directory_is_private_and_goes_with_the_session() -> None:
    with worker_sockets() as settings:
        directory = Path(settings[DIRECTORY])
        assert settings[ENABLED] == "true"
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
        (directory / ".left-by-a-killed-jvm.sock").touch()
    assert not directory.exists()


def test_a_path_that_is_too_long_for_a_socket_leaves_tcp(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    with worker_sockets(os.fspath(deep)) as settings:
        assert settings == {}
    assert not list(deep.iterdir())


@pytest.mark.parametrize(("platform", "options"), [("linux", (VFORK,)), ("darwin", ()), ("win32", ())])
def test_vfork_is_asked_for_on_linux_only(platform: str, options: tuple[str, ...]) -> None:
    assert quick_java_options(platform) == options


def test_a_sessions_workers_use_the_sockets(spark: SparkSession) -> None:
    conf = spark.sparkContext.getConf()
    assert conf.get(ENABLED) == "true"
    rows = spark.range(4, numPartitions=2).mapInArrow(lambda batches: batches, "id long")
    assert sorted(row.id for row in rows.collect()) == [0, 1, 2, 3]
    sockets = list(Path(str(conf.get(DIRECTORY))).glob("*.sock"))
    assert sockets, "no socket of a Python daemon"
    assert all(stat.S_ISSOCK(path.stat().st_mode) for path in sockets)
