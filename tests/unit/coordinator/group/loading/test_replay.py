"""What a log of group records adds up to, against a reading of it record by record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.coordinator.group.group_loading import PartitionReplay
from barnabas.coordinator.group.offsets_topic import OffsetCommitValue, group_key, offset_key, offset_key_prefix
from barnabas.coordinator.runtime.record import encode_record
from barnabas.records.compression import Codec
from barnabas.records.end_transaction_marker import EndTransactionMarker
from barnabas.records.legacy_records import encode_message
from barnabas.records.record_batch import NO_PRODUCER_ID
from barnabas.records.record_batch_builder import RecordBatchBuilder

NAMES = st.sampled_from(
    ["g", "group-\N{SNOWMAN}", "a-name-of-a-group-that-is-longer-than-sixty-four-bytes-" + "x" * 20]
)


class Write(NamedTuple):
    """One batch, or the end of a producer's transaction."""

    records: Sequence[tuple[str, str, int, int | None]]
    producer_id: int
    codec: Codec
    magic: int
    ends: bool | None


RECORDS = st.lists(
    st.tuples(NAMES, st.sampled_from(["t", "u"]), st.integers(0, 2), st.none() | st.integers(0, 4)),
    min_size=1,
    max_size=4,
)
WRITES = st.builds(
    Write,
    RECORDS,
    st.sampled_from([NO_PRODUCER_ID, NO_PRODUCER_ID, 1, 2]),
    st.sampled_from([Codec.NONE, Codec.NONE, Codec.GZIP]),
    st.sampled_from([2, 2, 2, 1]),
    st.none() | st.booleans(),
)


def value_of(offset: int, version: int) -> bytes:
    return encode_record(
        OffsetCommitValue(offset=offset, metadata="m" * (offset % 3) * 60, commit_timestamp=1), version
    )


def encoded(write: Write, position: int) -> bytes:
    if write.ends is not None and write.producer_id != NO_PRODUCER_ID:
        marker = EndTransactionMarker(not write.ends, 0, 1).batch(write.producer_id, 0)
        return position.to_bytes(8, "big") + marker[8:]
    records = [
        (
            offset_key(offset_key_prefix(group), topic.encode(), partition),
            None if at is None else value_of(position, at),
        )
        for group, topic, partition, at in write.records
    ]
    if write.magic < 2 and write.producer_id == NO_PRODUCER_ID:
        return b"".join(
            encode_message(1, position + number, 1, key, value) for number, (key, value) in enumerate(records)
        )
    builder = RecordBatchBuilder(
        write.codec,
        base_offset=position,
        producer_id=write.producer_id,
        is_transactional=write.producer_id != NO_PRODUCER_ID,
    )
    for key, value in records:
        builder.append(1, key, value)
    return builder.build()


def size_of(write: Write) -> int:
    return 1 if write.ends is not None and write.producer_id != NO_PRODUCER_ID else len(write.records)


@settings(max_examples=100, deadline=None)
@given(st.lists(WRITES, max_size=12), st.integers(0, 3))
def test_same_as_reading_record_by_record(writes: list[Write], cut: int) -> None:
    replay = PartitionReplay()
    counted: dict[tuple[str, str, int], tuple[int, bytes]] = {}
    open_commits: dict[int, dict[tuple[str, str, int], tuple[int, bytes]]] = {}
    log, position = b"", 0
    for write in writes:
        log += encoded(write, position)
        if write.ends is not None and write.producer_id != NO_PRODUCER_ID:
            for key, commit in open_commits.pop(write.producer_id, {}).items():
                if write.ends and counted.get(key, (-1, b""))[0] < commit[0]:
                    counted[key] = commit
        else:
            for number, (group, topic, partition, at) in enumerate(write.records):
                key = (group, topic, partition)
                if at is None:
                    counted.pop(key, None)
                    for commits in open_commits.values():
                        commits.pop(key, None)
                elif write.producer_id != NO_PRODUCER_ID:
                    open_commits.setdefault(write.producer_id, {})[key] = (position + number, value_of(position, at))
                else:
                    counted[key] = (position + number, value_of(position, at))
        position += size_of(write)
    cut_off = encoded(Write(CUT_OFF, NO_PRODUCER_ID, Codec.NONE, 2, None), 0)[: cut * 20]
    reached = list(replay.replay(log + cut_off))
    assert max(reached, default=0) == position
    found = {
        (group.decode(), topic, partition): value
        for group, by_topic in replay.groups.items()
        for topic, by_partition in by_topic.items()
        for partition, value in by_partition.items()
    }
    assert found == {key: value for key, (_, value) in counted.items()}
    unstable = {
        (group.decode(), topic, partition)
        for group, by_producer in replay.transactional().items()
        for commits in by_producer.values()
        for topic, partition in commits
    }
    assert unstable == {key for commits in open_commits.values() for key in commits}


CUT_OFF = [("g", "t", 0, 3)]


def test_other_records_are_kept_by_their_newest() -> None:
    replay = PartitionReplay()
    builder = RecordBatchBuilder()
    for group, value in (("a", b"1"), ("b", b"2"), ("a", b"3"), ("c", b"4"), ("b", None)):
        builder.append(1, group_key(group), value)
    assert list(replay.replay(builder.build())) == [5]
    assert replay.others == {group_key("a"): b"3", group_key("c"): b"4"}


def test_a_large_batch_is_taken_in_steps() -> None:
    replay = PartitionReplay()
    builder = RecordBatchBuilder()
    for partition in range(3000):
        builder.append(1, offset_key(offset_key_prefix("g"), b"t", partition), value_of(1, 3))
    steps = list(replay.replay(builder.build()))
    assert len(steps) > 10
    assert steps[-1] == 3000
    assert len(replay.groups[b"g"]["t"]) == 3000
