"""Keys and values of committed offsets and classic groups, byte for byte as Kafka writes them.

The golden bytes were written by the generated classes of Apache Kafka 3.9.2 and 4.3.1; tests/compatibility reads and
writes whole logs of theirs.
"""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.coordinator.group.offsets_topic import (
    CommittedOffset,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    commit_times,
    committed_offset,
    group_key,
    group_value,
    offset_key,
    offset_key_prefix,
    offset_value,
)
from barnabas.coordinator.runtime.record import decode_record, encode_record
from barnabas.protocol.errors import DecodeError

OFFSETS = st.integers(-(2**63), 2**63 - 1)
EPOCHS = st.integers(-(2**31), 2**31 - 1)
NAMES = st.text(max_size=30).filter(lambda text: max(text, default=" ") < "\ud800" or min(text) > "\udfff")


@given(NAMES, NAMES, EPOCHS)
def test_keys_of_offsets(group: str, topic: str, partition: int) -> None:
    key = offset_key(offset_key_prefix(group), topic.encode(), partition)
    assert decode_record(OffsetCommitKey, key) == OffsetCommitKey(group=group, topic=topic, partition=partition)
    assert encode_record(OffsetCommitKey(group=group, topic=topic, partition=partition), 1) == key


@given(OFFSETS, EPOCHS, NAMES, OFFSETS)
def test_values_of_offsets(offset: int, epoch: int, metadata: str, timestamp_ms: int) -> None:
    value = offset_value(offset, epoch, metadata, timestamp_ms)
    decoded = OffsetCommitValue(offset=offset, leader_epoch=epoch, metadata=metadata, commit_timestamp=timestamp_ms)
    assert value == encode_record(decoded, 3)
    assert committed_offset(value) == (offset, epoch, metadata, timestamp_ms, -1)
    assert commit_times(value) == (timestamp_ms, -1)
    for version in (0, 1, 2, 4):
        if version < 3:
            decoded.leader_epoch = -1
        if version == 1:
            decoded.expire_timestamp = 77
        other = encode_record(decoded, version)
        expires_ms = 77 if version == 1 else -1
        assert committed_offset(other) == (offset, decoded.leader_epoch, metadata, timestamp_ms, expires_ms)
        assert commit_times(other) == (timestamp_ms, expires_ms)
        decoded.expire_timestamp, decoded.leader_epoch = -1, epoch


def test_a_time_of_expiry_needs_version_1() -> None:
    value = offset_value(5, 3, "m", 100, 200)
    assert value.hex() == "0001000000000000000500016d000000000000006400000000000000c8"
    assert committed_offset(value) == CommittedOffset(5, -1, "m", 100, 200)


def test_golden_bytes() -> None:
    assert offset_key(offset_key_prefix("group"), b"topic", 3).hex() == ("0001000567726f75700005746f70696300000003")
    assert offset_value(42, 7, "here", 1_700_000_000_000).hex() == (
        "0003000000000000002a000000070004686572650000018bcfe56800"
    )
    assert group_key("group").hex() == "0002000567726f7570"
    member = GroupMetadataValue.MemberMetadata(
        member_id="m",
        group_instance_id="i",
        client_id="c",
        client_host="/h",
        rebalance_timeout=300,
        session_timeout=10,
        subscription=b"s",
        assignment=b"a",
    )
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=2,
        protocol="range",
        leader="m",
        current_state_timestamp=1,
        members=[member],
    )
    assert group_value(value).hex() == (
        "0003"
        "0008"
        "636f6e73756d6572"
        "00000002"
        "0005"
        "72616e6765"
        "0001"
        "6d"
        "0000000000000001"
        "00000001"
        "0001"
        "6d"
        "0001"
        "69"
        "0001"
        "63"
        "0002"
        "2f68"
        "0000012c"
        "0000000a"
        "00000001"
        "73"
        "00000001"
        "61"
    )
    assert decode_record(GroupMetadataValue, group_value(value)) == value
    assert decode_record(GroupMetadataKey, group_key("group")).group == "group"


@pytest.mark.parametrize(
    "value", [b"", b"\x00", b"\x00\x09", b"\x00\x03", b"\x00\x03" + bytes(12) + b"\x7f\xff", b"\xff\xff" + bytes(30)]
)
def test_malformed_values_are_refused(value: bytes) -> None:
    with pytest.raises(DecodeError):
        committed_offset(value)


@given(st.binary(max_size=60) | st.binary(max_size=30).map(b"\x00\x03".__add__))
def test_bytes_of_strangers_are_decoded_or_refused(value: bytes) -> None:
    with suppress(DecodeError):
        commit_times(value)
    try:
        committed_offset(value)
    except DecodeError:
        return
