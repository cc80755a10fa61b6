"""Partition directories as the compatibility tests look at them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.compatibility.contents import CONFIGS
from tests.support.apache_kafka import ApacheKafka
from tests.support.kafka_znodes import kafka_znodes


def partition_dirs(data_dir: Path) -> dict[str, dict[int, Path]]:
    """By topic and number of partition."""
    found: dict[str, dict[int, Path]] = {}
    for directory in sorted(data_dir.iterdir()):
        topic, _, number = directory.name.rpartition("-")
        if directory.is_dir() and topic and number.isdigit():
            found.setdefault(topic, {})[int(number)] = directory
    return found


def partition_counts(data_dir: Path) -> dict[str, int]:
    """By topic."""
    return {topic: len(directories) for topic, directories in partition_dirs(data_dir).items()}


def contents(directory: Path) -> dict[str, bytes]:
    """Every file but the lock, by its path in the directory."""
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file() and path.name != ".lock"
    }


def copy_data_dir(source: Path, target: Path) -> Path:
    """A copy as it is now, sparse files with holes as files with zeros."""
    shutil.copytree(source, target, ignore=shutil.ignore_patterns(".lock"))
    return target


def adopt(*data_dirs: Path, configs: Mapping[str, Mapping[str, str]] = CONFIGS, options: tuple[str, ...] = ()) -> str:
    """`barnabas log adopt` with the settings of the topics that are there, and more options; what it printed."""
    topics = dict.fromkeys(topic for data_dir in data_dirs for topic in partition_counts(data_dir))
    settings = [
        word
        for topic in topics
        for name, value in configs.get(topic, {}).items()
        for word in ("--topic-config", f"{topic}:{name}={value}")
    ]
    return _barnabas_log("adopt", *map(str, data_dirs), *settings, *options)


def barnabas_dump(*arguments: Path | str) -> str:
    """`barnabas log dump`; what it printed."""
    return _barnabas_log("dump", *map(str, arguments))


def start_over_data_dir(kafka: ApacheKafka, configs: Mapping[str, Mapping[str, str]] = CONFIGS) -> None:
    """Start `kafka` on a data directory of ours, of whose topics its ZooKeeper is told before."""
    kafka.zookeeper.start()
    with kafka_znodes(kafka.zookeeper) as znodes:
        znodes.write_cluster_id(_cluster_id(kafka.data_dir))
        for topic, directories in partition_dirs(kafka.data_dir).items():
            znodes.write_topic(topic, directories, configs[topic])
    kafka.start()


def _cluster_id(data_dir: Path) -> str:
    lines = (data_dir / "meta.properties").read_text().splitlines()
    return next(line.removeprefix("cluster.id=") for line in lines if line.startswith("cluster.id="))


def _barnabas_log(*arguments: str) -> str:
    command = [sys.executable, "-m", "barnabas", "log", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
