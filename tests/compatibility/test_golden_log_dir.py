"""A log directory of Apache Kafka 3.9's, kept with the tests, is adopted and answers as Kafka did. Needs no Java."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.compatibility.data_dirs import adopt, barnabas_dump, contents, partition_dirs
from tests.compatibility.golden import ANSWERS, CONFIGS, PIECES_KEPT, PROPERTIES, TOPICS, kept_answers, unpack
from tests.compatibility.observation import observe
from tests.support.barnabas_process import BarnabasProcess
from tests.support.server_process import ServerFailed

ENDS = ("stopped", "crashed")


@pytest.fixture(scope="module", params=ENDS)
def answers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What we answer; "crashed" has no mark of a clean stop, so that everything is recovered."""
    ours = BarnabasProcess(tmp_path_factory.mktemp("golden"), PROPERTIES | {"log.cleaner.enable": "false"})
    unpack(ours.data_dir)
    if request.param == "crashed":
        (ours.data_dir / ".kafka_cleanshutdown").unlink()
    adopt(ours.data_dir, configs=CONFIGS)
    with ours.running():
        return json.loads(json.dumps(kept_answers(observe(ours, TOPICS))))  # type: ignore[no-any-return]


@pytest.mark.parametrize("piece", PIECES_KEPT)
def test_same_answers_as_kafka(answers: dict[str, Any], piece: str) -> None:
    expected = {key: value for key, value in json.loads(ANSWERS.read_text()).items() if key.startswith(f"{piece} ")}
    assert {key: answers[key] for key in expected} == expected


def test_every_file_can_be_shown(tmp_path: Path) -> None:
    data_dir = unpack(tmp_path)
    files = [
        path
        for directories in partition_dirs(data_dir).values()
        for each in directories.values()
        for path in each.iterdir()
    ]
    shown = barnabas_dump(*files, *data_dir.glob("*-checkpoint"), data_dir / "meta.properties", "--print-data-log")
    assert shown.count("Dumping ") > 60
    for expected in (
        "endTxnMarker: ABORT",
        "currentTxnFirstOffset: OptionalLong[",
        "leaderEpoch: 2 startOffset:",
        "lz4",
    ):
        assert expected in shown


def test_a_directory_that_was_not_adopted_is_not_served(tmp_path: Path) -> None:
    ours = BarnabasProcess(tmp_path, PROPERTIES)
    before = contents(unpack(ours.data_dir))
    with pytest.raises(ServerFailed):
        ours.start()
    assert "take it over with `barnabas log adopt`" in ours.log_text()
    assert "Traceback" not in ours.log_text()
    after = contents(ours.data_dir)
    assert {name: after[name] for name in before} == before
    adopt(ours.data_dir, configs=CONFIGS)
    with ours.running():
        assert ours.is_alive


def test_recovery_makes_kafkas_own_files_again(tmp_path: Path) -> None:
    """All indexes gone, nothing known to be flushed: what we rebuild from the batches is what Kafka had written."""
    ours = BarnabasProcess(tmp_path, PROPERTIES | {"log.cleaner.enable": "false"})
    original = contents(unpack(ours.data_dir))
    rebuilt = {name for name in original if name.endswith((".index", ".timeindex", ".txnindex", ".snapshot"))}
    for name in (*rebuilt, ".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):
        (ours.data_dir / name).unlink()
    adopt(ours.data_dir, configs=CONFIGS)
    with ours.running():
        pass
    found = contents(ours.data_dir)
    # producers of transactions are forgotten in time, and snapshots with them
    compared = {name for name in original if name in rebuilt or name.endswith(".log")}
    compared -= {name for name in compared if name.startswith("transactions-0") and name.endswith(".snapshot")}
    assert [name for name in sorted(compared) if found.get(name) != original[name]] == []
