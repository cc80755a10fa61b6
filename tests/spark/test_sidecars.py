"""Parquet sidecars: built of sealed segments, read in their place, and never of another file. No Spark session."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

from barnabas.cli.log.log_sidecars import sidecars
from barnabas.clients.arrow import COLUMNS, RECORD_SCHEMA
from barnabas.records.compression import Codec
from barnabas.records.record_batch_builder import RecordBatchBuilder
from barnabas.runtime.files import OperatingSystemFiles
from barnabas.storage.checkpoints import HIGH_WATERMARK_FILE, OffsetCheckpointFile
from barnabas.storage.log_append_info import AppendGate
from barnabas.storage.readonly.partition_log import LogUnreadable
from barnabas_spark.log_source.log_batch_reader import read_split
from barnabas_spark.log_source.log_options import LogSourceOptions
from barnabas_spark.log_source.log_plan import plan_splits
from barnabas_spark.log_source.sidecars import current_sidecar
from barnabas_spark.reading.row_bounds import ALL_ROWS
from tests.compatibility.golden import TRANSACTIONS, unpack
from tests.spark.known_records import made_up
from tests.unit.storage.log_harness import NOW, PARTITION, Broker, log_config

pytestmark = pytest.mark.spark

FILES = OperatingSystemFiles(read_only=True)


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    config = log_config(segment_bytes=100_000, index_interval_bytes=500)
    broker = Broker(OperatingSystemFiles(), config=config, log_dirs=(str(tmp_path),))
    log, chance = broker.log(), random.Random(5)
    for number in range(200):
        builder = RecordBatchBuilder(Codec(number % len(Codec)))
        for index in range(chance.randint(1, 20)):
            key, value, headers = made_up(number + index)
            builder.append(NOW + number, key, value and value + chance.randbytes(200), headers)
        log.append_as_leader(builder.build(), 0, admit=AppendGate())
    assert len(log.local.segments) > 3
    OffsetCheckpointFile(str(tmp_path), HIGH_WATERMARK_FILE, OperatingSystemFiles()).write(
        {PARTITION: log.log_end_offset}
    )
    broker.manager.shutdown()
    return tmp_path


def run(command: str, data_dir: Path) -> list[str]:
    """The lines that the command prints, by name of the file."""
    result = CliRunner().invoke(sidecars, [command, str(data_dir)])
    assert result.exit_code == 0, result.output
    return [line.removeprefix(f"{data_dir}/{PARTITION}/") for line in result.output.splitlines()]


def read(data_dir: Path, topic: str = PARTITION.topic, columns: tuple[str, ...] = COLUMNS, **given: Any) -> pa.Table:
    options = LogSourceOptions.parse({"path": str(data_dir), "topic": topic, "splitBytes": "9000"} | given)
    found = [
        batch for split in plan_splits(options, ALL_ROWS, FILES) for batch in read_split(split, options, columns, FILES)
    ]
    return pa.Table.from_batches(found, pa.schema([RECORD_SCHEMA.field(name) for name in columns]))


def logs(data_dir: Path) -> list[Path]:
    return sorted((data_dir / f"{PARTITION}").glob("*.log"))


def test_the_same_rows(data_dir: Path) -> None:
    before = read(data_dir)
    sealed = logs(data_dir)[:-1]
    built = [line.split(":")[0] for line in run("build", data_dir)]
    assert built == [Path(current_sidecar(str(path), FILES) or "").name for path in sealed]
    assert current_sidecar(str(logs(data_dir)[-1]), FILES) is None
    assert read(data_dir).equals(before)
    assert read(data_dir, columns=("offset", "topic")).equals(before.select(["offset", "topic"]))
    limits: dict[str, Any] = {"startingOffsets": '{"topic": {"0": 77}}', "endingOffsets": '{"topic": {"0": 555}}'}
    assert read(data_dir, **limits)["offset"].to_pylist() == list(range(77, 555))
    assert set(read(data_dir, includeHeaders="false")["headers"].to_pylist()[0]) == set()
    assert run("build", data_dir) == []
    assert all(line.endswith(": sound") for line in run("check", data_dir))
    assert len(run("drop", data_dir)) == len(sealed)
    assert not list((data_dir / f"{PARTITION}").glob("*.parquet*"))


def test_a_sidecar_is_read_in_place_of_its_segment(data_dir: Path) -> None:
    """A byte that the identity does not cover is damaged: the log file cannot be read any more, the sidecar can."""
    before = read(data_dir)
    run("build", data_dir)
    path = logs(data_dir)[1]
    sidecar = current_sidecar(str(path), FILES)
    data = bytearray(path.read_bytes())
    step = (len(data) - 4096) // 15
    data[step + 4096 + (step - 4096) // 2] ^= 0xFF
    path.write_bytes(data)
    assert read(data_dir).equals(before)
    with pytest.raises(LogUnreadable, match=f"{path}"):
        read(data_dir, sidecars="false")
    result = CliRunner().invoke(sidecars, ["check", str(data_dir)])
    assert result.exit_code == 1
    assert f"{Path(sidecar or '').name}: {path} has changed in place since" in result.output


def test_a_sidecar_of_another_file_is_not_read(data_dir: Path) -> None:
    run("build", data_dir)
    first, second = logs(data_dir)[:2]
    names = [Path(current_sidecar(str(path), FILES) or "").name for path in (first, second)]
    # Cleaned: only the first batch of the segment is left.
    data = second.read_bytes()
    second.write_bytes(data[: 12 + int.from_bytes(data[8:12], "big")])
    kept = int.from_bytes(data[23:27], "big") + 1
    following = int(logs(data_dir)[2].stem)
    expected = [*range(int(second.stem) + kept), *range(following, read(data_dir)["offset"][-1].as_py() + 1)]
    assert read(data_dir)["offset"].to_pylist() == expected
    result = CliRunner().invoke(sidecars, ["check", str(data_dir)])
    assert result.exit_code == 1
    assert f"{names[1]}: was made from another file than {second}" in result.output
    # Retention has deleted the first segment.
    first.unlink()
    dropped_first, dropped_second, built = run("build", data_dir)
    assert dropped_first == f"{names[0]}: dropped: its segment is gone"
    assert dropped_second == f"{names[1]}: dropped: it does not fit {second} any more"
    rebuilt = current_sidecar(str(second), FILES)
    assert built == f"{Path(rebuilt or '').name}: built, {kept} rows"
    Path(rebuilt or "").write_bytes(b"no Parquet at all")
    assert read(data_dir)["offset"].to_pylist() == expected[expected.index(int(second.stem)) :]


def test_aborted_records_stay_out(tmp_path: Path) -> None:
    """A directory of Kafka's, with aborted transactions in sealed segments."""
    data_dir = unpack(tmp_path)
    committed: dict[str, Any] = {"isolation.level": "read_committed"}
    uncommitted = read(data_dir, TRANSACTIONS), read(data_dir, TRANSACTIONS, **committed)
    assert uncommitted[0].num_rows > uncommitted[1].num_rows > 0
    result = CliRunner().invoke(sidecars, ["build", str(data_dir), "--topic", TRANSACTIONS])
    assert "built, " in result.output, result.output
    assert (read(data_dir, TRANSACTIONS), read(data_dir, TRANSACTIONS, **committed)) == uncommitted


def test_wrong_directories_are_named(tmp_path: Path) -> None:
    result = CliRunner().invoke(sidecars, ["build", str(tmp_path / "none")])
    assert result.exit_code == 1
    assert "none is no directory; name a broker's data directory" in result.output
