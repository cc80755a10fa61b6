"""What the tests of this directory share: a log directory of ours, filled, as several ends left it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from tests.compatibility.contents import (
    BROKER_PROPERTIES,
    COMPACTED,
    PARTITIONS,
    fill,
    fill_by_clients,
    wait_until_cleaned,
)
from tests.compatibility.data_dirs import copy_data_dir
from tests.compatibility.observation import Observation, observe
from tests.support.apache_kafka import need_apache_kafka
from tests.support.barnabas_process import BarnabasProcess


class OurDirectories(NamedTuple):
    """By end ("stopped", "killed", "recovered": killed, started and stopped), and what we had answered before."""

    topics: dict[str, int]
    data_dirs: dict[str, Path]
    answers: Observation


@pytest.fixture(scope="session")
def our_directories(tmp_path_factory: pytest.TempPathFactory) -> OurDirectories:
    """One broker of ours: filled, killed, started again, stopped, and once more."""
    need_apache_kafka()
    directory = tmp_path_factory.mktemp("ours")
    topics = {topic: count for topic, count in PARTITIONS.items() if topic != "transactions"}
    ours = BarnabasProcess(directory / "ours", BROKER_PROPERTIES)
    data_dirs = {}
    try:
        ours.start()
        fill(ours)
        fill_by_clients(ours)
        wait_until_cleaned(ours.data_dir, COMPACTED)
        answers = observe(ours, topics)
        ours.kill()
        data_dirs["killed"] = copy_data_dir(ours.data_dir, directory / "killed")
        for end in ("recovered", "stopped"):
            ours.start()
            ours.stop()
            data_dirs[end] = copy_data_dir(ours.data_dir, directory / end)
    finally:
        ours.close()
    return OurDirectories(topics, data_dirs, answers)
