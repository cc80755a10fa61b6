"""What makes Spark's processes quick: Unix domain sockets where these fit, vfork on Linux, a pyspark with bytecode."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from barnabas_spark.session import VFORK, quick_java_options, worker_sockets
from barnabas_spark.spark_home import quick_spark_home

ENABLED = "spark.python.unix.domain.socket.enabled"
LINKED = ("bin/spark-submit", "jars/spark.jar", "conf/spark-defaults.conf", "python/pyspark/shell.py")
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


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A pyspark as pip installs it: the package, with Spark's home in it."""
    package = tmp_path / "site-packages" / "pyspark"
    archives = ("python/lib/pyspark.zip", "python/lib/py4j-0.10.9.9-src.zip")
    for file in ("__init__.py", *LINKED, *archives):
        path = package / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return package


def test_the_home_of_spark_has_the_packages_in_place_of_the_archives(installed: Path) -> None:
    with quick_spark_home(os.fspath(installed)) as made:
        assert made is not None
        home = Path(made)
        for file in LINKED:
            assert (home / file).samefile(installed / file)
        assert (home / "python/lib/pyspark.zip/pyspark/__init__.py").samefile(installed / "__init__.py")
        assert (home / "python/lib/py4j-0.10.9.9-src.zip/py4j/__init__.py").is_file()
    assert not home.exists()
    assert (installed / "jars/spark.jar").exists(), "the links were followed"


def test_a_spark_that_is_elsewhere_or_without_links_starts_from_its_own_home(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with quick_spark_home(os.fspath(tmp_path)) as made:
        assert made is None

    def refuse(_source: str, _target: str) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "symlink", refuse)
    with quick_spark_home(os.fspath(installed)) as made:
        assert made is None


def test_a_sessions_workers_import_pyspark_with_bytecode(spark: SparkSession) -> None:
    def loaders(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import py4j
        import pyspark

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"name": [type(each.__loader__).__name__ for each in (pyspark, py4j)]})

    rows = spark.range(1, numPartitions=1).mapInArrow(loaders, "name string").collect()
    assert [row.name for row in rows] == ["SourceFileLoader", "SourceFileLoader"]
    assert "SPARK_HOME" not in os.environ, "a session that is not ours would find it"
