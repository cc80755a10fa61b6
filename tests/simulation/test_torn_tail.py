"""The last segment cut at every byte of its last three batches and index entries, and bits of every byte flipped.

After an unclean stop the log must hold every whole batch before the damage and nothing else, and every index entry
must be true. Where Kafka's format cannot tell (the leader epoch is under no checksum), the test says so.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest

from barnabas.records.compression import Codec
from barnabas.records.record_batch import HEADER_SIZE, RecordBatch
from tests.support.simulated_files import SimulatedFiles
from tests.unit.storage.log_harness import NOW, Broker, batch, check_indexes, log_config, read_all

CONFIG = log_config(segment_bytes=3000, index_interval_bytes=150)
LAST_BATCHES = 3
OFFSET_BYTES = range(8)
EPOCH_BYTES = range(12, 16)


class Crashed:
    """A disk as an unclean stop left it, with what was on it."""

    def __init__(self, *, codec: Codec, checkpointed: bool) -> None:
        self.files = SimulatedFiles()
        self.checkpointed = checkpointed
        broker = Broker(self.files, config=CONFIG)
        log = broker.log()
        chance = random.Random(7)
        while len(log.local.segments) < 3 or log.local.segments.active.size < 1200:
            records = chance.randint(1, 4)
            produced = batch(
                records, codec=codec, size=chance.randint(1, 60), chance=chance, timestamp=NOW + log.log_end_offset * 10
            )
            log.append_as_leader(produced, 2)
        broker.scheduler.tick()
        if checkpointed:
            log.flush()
            broker.manager.checkpoints.write_recovery_points()
        for segment in log.local.segments:
            segment.indexes.offsets.write_pending()
            segment.indexes.times.write_pending()
        self.batches = read_all(log)
        segment = log.local.segments.active
        self.log_path = segment.file.path
        self.index_paths = (segment.indexes.offsets.path, segment.indexes.times.path)
        self.before_segment = sum(other.size for other in log.local.segments) - segment.size
        self.files.kill()

    def recovered(self, path: str, content: bytes) -> list[bytes]:
        """The batches after a start on a copy of the disk where the file at `path` has this content."""
        files = self.files.copy()
        files.write_bytes(path, content)
        log = Broker(files, config=CONFIG).log()
        check_indexes(log)
        found = read_all(log)
        assert log.log_end_offset == (RecordBatch(found[-1]).next_offset if found else 0)
        log.append_as_leader(batch(2), 3)
        check_indexes(log)
        assert read_all(log)[:-1] == found
        return found


@pytest.fixture(
    scope="module",
    params=["plain", *(pytest.param(name, marks=pytest.mark.slow) for name in ("compressed", "checkpointed"))],
)
def crashed(request: pytest.FixtureRequest) -> Crashed:
    return Crashed(
        codec=Codec.LZ4 if request.param == "compressed" else Codec.NONE, checkpointed=request.param == "checkpointed"
    )


def flips(content: bytes, start: int) -> Iterator[tuple[int, bytes]]:
    """Every bit of the first bytes from `start` on flipped, then a bit of every byte; with the number of the byte."""
    for place in range(start, len(content)):
        for bit in range(8) if place < start + HEADER_SIZE + 8 else (place % 8,):
            damaged = bytearray(content)
            damaged[place] ^= 1 << bit
            yield place, bytes(damaged)


def test_log_cut_at_every_byte_of_its_last_batches(crashed: Crashed) -> None:
    content = crashed.files.read_bytes(crashed.log_path)
    tail = sum(map(len, crashed.batches[-LAST_BATCHES:]))
    for size in range(len(content) - tail, len(content) + 1):
        whole, position = [], 0
        for stored in crashed.batches:
            position += len(stored)
            if position <= crashed.before_segment + size:
                whole.append(stored)
        assert crashed.recovered(crashed.log_path, content[:size]) == whole


def test_log_with_bits_of_its_last_batches_flipped(crashed: Crashed) -> None:
    content = crashed.files.read_bytes(crashed.log_path)
    start = len(content)
    for behind in range(1, LAST_BATCHES + 1):
        start -= len(crashed.batches[-behind])
        check_flips(crashed, content, start, behind)


def check_flips(crashed: Crashed, content: bytes, start: int, behind: int) -> None:
    """Flip bits in the batch at `start`, the last but `behind` - 1."""
    before, hit = crashed.batches[:-behind], crashed.batches[-behind]
    for place, damaged in flips(content[: start + len(hit)], start):
        found = crashed.recovered(crashed.log_path, damaged + content[start + len(hit) :])
        # No checksum covers offset and leader epoch. A larger epoch is believed, and a larger offset is where there may
        # be gaps: below the recovery point.
        unprotected = [*EPOCH_BYTES, *(OFFSET_BYTES if crashed.checkpointed else ())]
        if place - start in unprotected and found != before:
            assert found[: len(before)] == before
            assert found[len(before)][16:] == hit[16:]
            assert found[len(before) + 1 :] == crashed.batches[len(before) + 1 : len(found)]
        else:
            assert found == before, f"byte {place - start} of the last batch but {behind - 1}"


def test_bits_flipped_earlier_cost_what_lies_behind(crashed: Crashed) -> None:
    content = crashed.files.read_bytes(crashed.log_path)
    chance = random.Random(11)
    for _ in range(60):
        damaged = bytearray(content)
        place = chance.randrange(len(content))
        damaged[place] ^= 1 << chance.randrange(8)
        position, good = -crashed.before_segment, []
        for stored in crashed.batches:
            if position <= place < position + len(stored):
                break
            good.append(stored)
            position += len(stored)
        found = crashed.recovered(crashed.log_path, bytes(damaged))
        if place - position not in EPOCH_BYTES and not crashed.checkpointed:
            assert found == good
        assert found[: len(good)] == good


@pytest.mark.parametrize("which", [0, 1], ids=["index", "timeindex"])
def test_index_cut_or_flipped_in_its_last_entries(crashed: Crashed, which: int) -> None:
    path = crashed.index_paths[which]
    content = crashed.files.read_bytes(path)
    entry = (8, 12)[which]
    last_entries = min(3, len(content) // entry) * entry
    assert last_entries >= 2 * entry
    for size in range(len(content) - last_entries, len(content)):
        assert crashed.recovered(path, content[:size]) == crashed.batches
    for _, damaged in flips(content, len(content) - last_entries):
        assert crashed.recovered(path, damaged) == crashed.batches


@pytest.mark.parametrize("damage", [lambda content: content + bytes(700), lambda content: content + content[-90:]])
def test_rubbish_behind_the_last_batch_is_cut(crashed: Crashed, damage: Callable[[bytes], bytes]) -> None:
    content = crashed.files.read_bytes(crashed.log_path)
    assert len(content) > HEADER_SIZE
    assert crashed.recovered(crashed.log_path, damage(content)) == crashed.batches


def test_older_batch_behind_a_newer_one_is_not_believed() -> None:
    """What a truncation cut off, in the disk's old pages: right offsets and checksum, an older leader epoch."""
    files = SimulatedFiles()
    broker = Broker(files)
    log = broker.log()
    for _ in range(4):
        log.append_as_leader(batch(2), 1)
    old = read_all(log)
    log.truncate_to(2)
    log.append_as_leader(batch(2), 2)
    new = read_all(log)
    files.kill()
    path = log.local.segments.active.file.path
    files.write_bytes(path, b"".join([*new, *old[2:]]))
    assert read_all(Broker(files).log()) == new
