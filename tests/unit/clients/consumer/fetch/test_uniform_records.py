"""Answers of many batches of one shape, with others between them: the records that a careful reader finds."""

from __future__ import annotations

import struct
from random import Random
from typing import NamedTuple

import pytest

from barnabas.clients.consumer.fetch.answer_batches import AnswerBatches
from barnabas.clients.consumer.fetch.completed_fetch import CompletedFetch
from barnabas.clients.consumer.fetch.uniform_records import WantedRecords, take_uniform_batches
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.compression import Buffer, Codec
from barnabas.records.errors import CorruptRecord
from barnabas.records.legacy_records import encode_message_set
from barnabas.records.memory_records import any_batches
from barnabas.records.record_batch import ATTRIBUTES_POSITION, HEADER_SIZE, LOG_APPEND_TIME, RecordBatch
from barnabas.records.record_batch_builder import RecordBatchBuilder
from barnabas.records.v2.walk import Record

TP0 = TopicPartition("t", 0)
FIRST_TIME_MS = 1_700_000_000_000


class Answered(NamedTuple):
    """The records of an answer as a poll returns them, where they end, and whether a damaged record follows."""

    records: list[tuple[object, ...]]
    next_offset: int | None
    is_corrupt: bool


class Sizes(NamedTuple):
    """The sizes of keys and values in bytes; None for null."""

    key: int | None
    value: int | None


def a_batch(chance: Random, base_offset: int, sizes: Sizes, codec: Codec = Codec.NONE) -> bytes:
    """A batch of records of one shape; in some answers' batches one thing is different."""
    odd = chance.choice(
        ("", "", "", "", "", "", "value", "key", "gap", "time", "header", "codec", "stamped", "control")
    )
    count = chance.choice((1, 2, 15, 15, 15, 15, 63, 64, 65, 130))
    builder = RecordBatchBuilder(
        chance.choice(list(Codec)) if odd == "codec" else codec,
        base_offset=base_offset,
        timestamp_type=LOG_APPEND_TIME if odd == "stamped" else 0,
        log_append_time=FIRST_TIME_MS + 5 if odd == "stamped" else -1,
        partition_leader_epoch=chance.choice((3, 4)),
        is_control=odd == "control",
    )
    steps = chance.choice(((0,), (0, 1), (2, -1)))
    different, timestamp, offset = chance.randrange(count), FIRST_TIME_MS, base_offset
    for index in range(count):
        key, value = (None if size is None else chance.randbytes(size) for size in sizes)
        headers = []
        timestamp += chance.choice(steps)
        if index == different:
            if odd == "value":
                value = chance.choice((None, b"", chance.randbytes((sizes.value or 0) + 1)))
            elif odd == "key":
                # As many bytes in all: only the lengths of key and value tell this record from the others.
                key, value = value, key
            elif odd == "gap":
                offset += chance.choice((1, 40, 70))
            elif odd == "time":
                timestamp += chance.choice((64, 9000))
            elif odd == "header":
                headers = [("h", b"x")]
        builder.append(timestamp, key, value, headers, offset=offset)
        offset += 1
    return builder.build()


def an_answer(chance: Random) -> bytearray:
    sizes = Sizes(chance.choice((None, 0, 3, 63, 64)), chance.choice((None, 0, 20, 63, 64, 1000)))
    answer, offset = bytearray(), chance.randrange(1 << 40)
    codec = chance.choice((Codec.NONE, *Codec))
    for _ in range(chance.choice((1, 5, 20))):
        answer += (batch := a_batch(chance, offset, sizes, codec))
        offset = RecordBatch(batch).next_offset + chance.choice((0, 0, 0, 7))
    return answer


def carefully(answer: Buffer, start: int, *, check_crcs: bool) -> Answered:
    records: list[tuple[object, ...]] = []
    next_offset = start
    try:
        for batch in any_batches(answer):
            assert isinstance(batch, RecordBatch)
            if batch.next_offset <= start:
                continue
            if check_crcs:
                batch.check()
            if not batch.is_control:
                for record in batch.records():
                    if record.offset >= start:
                        timestamp = batch.max_timestamp if batch.timestamp_type else record.timestamp
                        fields = (record.offset, timestamp, batch.timestamp_type, *record[2:])
                        records.append(("t", 0, *fields))
                        next_offset = record.offset + 1
            next_offset = max(next_offset, batch.next_offset)
    except CorruptRecord:
        return Answered(records, None, True)
    return Answered(records, next_offset, False)


def has_rising_offsets(answer: Buffer) -> bool:
    last = -1
    for batch in any_batches(answer):
        try:
            for record in batch.records():
                if not last < record.offset < batch.next_offset:
                    return False
                last = record.offset
        except CorruptRecord:
            return True
    return True


def by_polls(answer: Buffer, start: int, limit: int, *, check_crcs: bool) -> Answered:
    fetch = CompletedFetch(TP0, start, memoryview(answer), check_crcs=check_crcs)
    records: list[tuple[object, ...]] = []
    try:
        while taken := fetch.take(limit):
            assert len(taken) <= limit
            records += taken
            assert fetch.next_offset > taken[-1].offset
            if len(taken) < limit:
                # The end, or damage behind good records: the next fetch begins with the bad one.
                fetch = CompletedFetch(TP0, fetch.next_offset, memoryview(answer), check_crcs=check_crcs)
    except CorruptRecord:
        return Answered(records, None, True)
    return Answered(records, fetch.next_offset, False)


@pytest.mark.parametrize("seed", range(60))
def test_answers_are_read_alike(seed: int) -> None:
    chance = Random(seed)
    answer = an_answer(chance)
    offsets = [record.offset for batch in any_batches(answer) for record in batch.records()]
    start = chance.choice((offsets[0], chance.choice(offsets)))
    expected = carefully(answer, start, check_crcs=True)
    assert not expected.is_corrupt
    assert by_polls(answer, start, chance.choice((1, 20, 500)), check_crcs=True) == expected


@pytest.mark.parametrize("seed", range(60))
def test_damaged_answers_are_read_alike(seed: int) -> None:
    chance = Random(seed)
    good = an_answer(chance)
    start = RecordBatch(good).base_offset
    batches = [batch for batch in any_batches(good) if isinstance(batch, RecordBatch)]
    for _ in range(20):
        damaged = bytearray(good)
        # Behind the header, near the beginning of a batch, where many bytes are lengths.
        batch = chance.choice(batches)
        place = HEADER_SIZE + chance.randrange(min(40, batch.length - HEADER_SIZE))
        damaged[batch.position + place] = chance.choice((0, 1, 2, 0x7F, 0x80, 0xFF))
        limit = chance.choice((20, 500))
        expected = carefully(damaged, start, check_crcs=True)
        assert by_polls(damaged, start, limit, check_crcs=True) == expected
        found = by_polls(damaged, start, limit, check_crcs=False)
        # Offsets that do not rise make no sense, and a reader that goes on behind the last one skips others.
        if has_rising_offsets(damaged):
            assert found == carefully(damaged, start, check_crcs=False)


def three_uniform_batches(codec: Codec) -> bytes:
    answer = b""
    for base_offset in (0, 15, 30):
        builder = RecordBatchBuilder(codec, base_offset=base_offset, partition_leader_epoch=base_offset)
        for number in range(15):
            builder.append(FIRST_TIME_MS + number, b"key", bytes(1000))
        answer += builder.build()
    return answer


@pytest.mark.parametrize("codec", list(Codec))
def test_one_loop_takes_all_whole_batches_of_the_shape(codec: Codec) -> None:
    answer = three_uniform_batches(codec)
    fetch = CompletedFetch(TP0, 0, answer, check_crcs=True)
    fetch.take(15)
    shapes = fetch._batches.shapes
    assert len(fetch.take(500)) == 30
    assert (fetch.next_offset, fetch.last_epoch, fetch.unread_bytes) == (45, 30, 0)
    batch_bytes = len(answer) // 3
    # The limit of 20 records is reached within the second batch, which is taken whole.
    uniform = take_uniform_batches(answer, 0, shapes, WantedRecords(TP0, 0, 20, True))
    assert uniform is not None
    assert [record.offset for record in uniform.records] == list(range(30))
    assert (uniform.last, uniform.end, uniform.next_offset, uniform.leader_epoch) == (
        batch_bytes,
        2 * batch_bytes,
        30,
        15,
    )
    assert take_uniform_batches(answer, 0, shapes, WantedRecords(TP0, 1, 500, True)) is None
    assert take_uniform_batches(answer[:-1], 2 * batch_bytes, shapes, WantedRecords(TP0, 0, 500, True)) is None


@pytest.mark.parametrize("codec", list(Codec))
def test_a_poll_that_ends_within_a_batch_leaves_the_rest_of_it(codec: Codec) -> None:
    answer = three_uniform_batches(codec)
    batch_bytes = len(answer) // 3
    fetch = CompletedFetch(TP0, 0, answer, check_crcs=True)
    fetch.take(15)
    assert [record.offset for record in fetch.take(20)] == list(range(15, 35))
    # As long as a batch is read, all of it counts as unread.
    assert (fetch.next_offset, fetch.last_epoch, fetch.unread_bytes) == (35, 30, batch_bytes)
    assert [record.offset for record in fetch.take(4)] == list(range(35, 39))
    # The batch can still be taken whole, as `poll_table` does.
    assert [batch.base_offset for batch in fetch.take_batches(1)] == [30]
    assert (fetch.next_offset, fetch.last_epoch, fetch.unread_bytes) == (45, 30, 0)


def test_compressed_batches_of_other_sizes_are_left_to_the_careful_reader() -> None:
    answer = three_uniform_batches(Codec.LZ4)
    fetch = CompletedFetch(TP0, 0, answer, check_crcs=True)
    fetch.take(15)
    shapes = fetch._batches.shapes
    wanted = WantedRecords(TP0, 0, 500, True)
    builder = RecordBatchBuilder(Codec.LZ4)
    for number in range(15):
        builder.append(FIRST_TIME_MS + number, b"key", bytes(1001))
    other = builder.build()
    for _ in range(3):
        assert take_uniform_batches(other, 0, shapes, wanted) is None
    # A batch of the right size comes in between: the next ones are tried again.
    assert take_uniform_batches(answer, 0, shapes, wanted) is not None
    for _ in range(4):
        assert not shapes.has_other_sizes
        assert take_uniform_batches(other, 0, shapes, wanted) is None
    assert shapes.has_other_sizes
    assert take_uniform_batches(answer, 0, shapes, wanted) is None
    assert take_uniform_batches(three_uniform_batches(Codec.NONE), 0, shapes, wanted) is not None
    assert len(fetch.take(500)) == 30


def test_the_size_that_a_compressed_batch_claims_is_limited() -> None:
    answer = three_uniform_batches(Codec.LZ4)
    fetch = CompletedFetch(TP0, 0, answer, check_crcs=False)
    fetch.take(15)
    claims_many = bytearray(answer)
    struct.pack_into(">i", claims_many, HEADER_SIZE - 4, 1 << 30)
    assert take_uniform_batches(claims_many, 0, fetch._batches.shapes, WantedRecords(TP0, 0, 1 << 31, False)) is None
    assert not fetch._batches.shapes.has_other_sizes


def test_an_unknown_codec_is_left_to_the_careful_reader() -> None:
    answer = bytearray(three_uniform_batches(Codec.LZ4))
    fetch = CompletedFetch(TP0, 0, memoryview(answer), check_crcs=False)
    fetch.take(15)
    second = len(answer) // 3
    answer[second + ATTRIBUTES_POSITION + 1] = 7
    with pytest.raises(CorruptRecord, match="unknown compression codec 7"):
        fetch.take(500)


@pytest.mark.parametrize("seed", range(20))
def test_the_next_fetch_begins_behind_the_last_whole_batch(seed: int) -> None:
    chance = Random(seed)
    answer = an_answer(chance)
    if seed % 3 == 0:
        answer = bytearray(encode_message_set(1, [Record(3, FIRST_TIME_MS, None, b"v")])) + answer
    for _ in range(5):
        damaged = answer[: chance.choice((len(answer), chance.randrange(len(answer))))]
        place = chance.randrange(len(damaged) + 1)
        damaged[place : place + 1] = chance.choice((damaged[place : place + 1], b"\x00", b"\x02", b"\xff"))
        end = 5
        try:
            for batch in any_batches(damaged):
                end = max(end, batch.next_offset)
        except CorruptRecord:
            pass
        assert AnswerBatches(memoryview(damaged)).end_offset(5) == end
