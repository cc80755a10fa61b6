"""The records of consumer groups, byte for byte those that Kafka 4.3.1's GroupCoordinatorRecordSerde writes."""

from __future__ import annotations

import pytest

from barnabas.coordinator.group.consumer.consumer_group import ConsumerGroup
from barnabas.coordinator.group.consumer.consumer_group_member import (
    ClassicMetadata,
    ConsumerGroupMember,
    ReconciliationState,
)
from barnabas.coordinator.group.consumer.consumer_group_records import (
    ConsumerGroupKind,
    ConsumerGroupMetadataValue,
    GroupKey,
    MemberKey,
    RegularExpressionKey,
    RegularExpressionValue,
    TargetAssignmentMetadataValue,
    decode_key,
    record,
    target_partitions,
    tombstone,
)
from barnabas.coordinator.group.consumer.replay import replay, restore_consumer_groups
from barnabas.coordinator.group.offsets_topic import CONSUMER_GROUP_KINDS
from barnabas.coordinator.runtime.record import CoordinatorRecord
from barnabas.protocol.errors import DecodeError

TOPIC = bytes.fromhex("01020304050607081112131415161718")
FULL = ConsumerGroupMember(
    "member",
    member_epoch=7,
    previous_member_epoch=6,
    state=ReconciliationState.UNREVOKED_PARTITIONS,
    instance_id="one",
    rack_id="r1",
    rebalance_timeout_ms=300_000,
    client_id="cli",
    client_host="/127.0.0.1",
    subscribed_topic_names=frozenset({"b", "a"}),
    subscribed_topic_regex="x.*",
    server_assignor="range",
    assigned_partitions={TOPIC: {0: 2, 3: 7}},
    partitions_pending_revocation={TOPIC: {5: 1}},
    classic=ClassicMetadata(45_000, (("range", b"\0\1\2"),)),
)
PLAIN = ConsumerGroupMember("m", client_id="c", client_host="/::1")
KEY, MEMBER, REGEX = GroupKey("group"), MemberKey("group", "member"), RegularExpressionKey("group", "x.*")
Kind = ConsumerGroupKind

GOLDEN = {
    "member": (
        FULL.metadata_record("group"),
        "0005000567726f757000066d656d626572",
        (
            "0000046f6e6503723104636c690b2f3132372e302e302e31030261026204782e2a000493e00672616e67650100120100"
            "00afc8020672616e6765040001020000"
        ),
    ),
    "plain member": (
        PLAIN.metadata_record("g"),
        "000500016700016d",
        "000000000263052f3a3a310101ffffffff0001000100",
    ),
    "no member": (tombstone(Kind.MEMBER_METADATA, MEMBER), "0005000567726f757000066d656d626572", None),
    "epoch": (
        record(Kind.GROUP_METADATA, KEY, ConsumerGroupMetadataValue(epoch=9, metadata_hash=-77)),
        "0003000567726f7570",
        "000000000009010008ffffffffffffffb3",
    ),
    "epoch without a hash": (
        record(Kind.GROUP_METADATA, KEY, ConsumerGroupMetadataValue(epoch=9)),
        "0003000567726f7570",
        "00000000000900",
    ),
    "no partition metadata": (tombstone(Kind.PARTITION_METADATA, KEY), "0004000567726f7570", None),
    "target": (
        record(Kind.TARGET_ASSIGNMENT_MEMBER, MEMBER, target_partitions({TOPIC: {5, 0, 3}})),
        "0007000567726f757000066d656d626572",
        "00000201020304050607081112131415161718040000000000000003000000050000",
    ),
    "target epoch": (
        record(
            Kind.TARGET_ASSIGNMENT_METADATA,
            KEY,
            TargetAssignmentMetadataValue(assignment_epoch=9, assignment_timestamp=1_700_000_000_000),
        ),
        "0006000567726f7570",
        "0000000000090100080000018bcfe56800",
    ),
    "target epoch without a time": (
        record(Kind.TARGET_ASSIGNMENT_METADATA, KEY, TargetAssignmentMetadataValue(assignment_epoch=9)),
        "0006000567726f7570",
        "00000000000900",
    ),
    "current": (
        FULL.assignment_record("group"),
        "0008000567726f757000066d656d626572",
        (
            "000000000007000000060102010203040506070811121314151617180300000000000000030100090300000002000000"
            "0702010203040506070811121314151617180200000005010005020000000100"
        ),
    ),
    "regular expression": (
        record(
            Kind.REGULAR_EXPRESSION,
            REGEX,
            RegularExpressionValue(topics=["xa", "xb"], version=12, timestamp=1_700_000_000_000),
        ),
        "0010000567726f75700003782e2a",
        "000003037861037862000000000000000c0000018bcfe5680000",
    ),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_bytes_are_kafkas(name: str) -> None:
    written, key, value = GOLDEN[name]
    assert written == CoordinatorRecord(bytes.fromhex(key), None if value is None else bytes.fromhex(value))


def test_a_member_is_what_its_records_say() -> None:
    group = ConsumerGroup("group")
    for written in (FULL.assignment_record("group"), FULL.metadata_record("group")):
        replay(group, *written)
    assert group.members == {"member": FULL}
    assert group.static_members == {"one": "member"}
    assert group.partition_epoch(TOPIC, 3) == group.partition_epoch(TOPIC, 5) == 7
    assert group.partition_epoch(TOPIC, 1) == -1


def test_epochs_that_older_coordinators_did_not_write() -> None:
    """Before 4.3 there was none for each partition; a static member that left for a while had the epoch -2."""
    value = bytes.fromhex("0000fffffffe000000060002" + TOPIC.hex() + "0200000004000100")
    group = ConsumerGroup("group")
    replay(group, FULL.assignment_record("group").key, value)
    assert group.members["member"].assigned_partitions == {TOPIC: {4: 0}}


def test_a_state_of_a_later_release_is_unknown() -> None:
    value = bytes.fromhex("0000000000070000000663010100")
    group = ConsumerGroup("group")
    replay(group, FULL.assignment_record("group").key, value)
    assert group.members["member"].state is ReconciliationState.UNKNOWN


def test_partition_metadata_of_kafka_4_0_is_noted() -> None:
    value = bytes.fromhex("000002" + TOPIC.hex() + "04666f6f00000003010000")
    group = ConsumerGroup("group")
    replay(group, tombstone(Kind.PARTITION_METADATA, KEY).key, value)
    assert group.has_partition_metadata
    replay(group, *tombstone(Kind.PARTITION_METADATA, KEY))
    assert not group.has_partition_metadata


@pytest.mark.parametrize("key", [b"", b"\0", b"\0\2\0\1g", b"\0\3", b"\0\3\0\5gro", b"\0\3\0\1gx", b"\0\xff\0\1g"])
def test_what_is_no_key(key: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_key(key)


def test_an_unreadable_record_costs_no_other_group_anything(caplog: pytest.LogCaptureFixture) -> None:
    good, bad = PLAIN.metadata_record("good"), FULL.metadata_record("bad")
    steps = list(restore_consumer_groups([(good.key, good.value or b""), (bad.key, b"\0\1\0"), (b"\0\3\0\1", b"")]))
    assert steps[-1]["good"].members == {"m": PLAIN}
    assert len(caplog.records) == 2


def test_a_member_of_before_classic_members() -> None:
    written = PLAIN.metadata_record("g")
    assert written.value is not None
    assert written.value.endswith(b"\0\1\0\1\0")
    group = ConsumerGroup("g")
    replay(group, written.key, written.value[:-4] + b"\0")
    assert group.members["m"] == PLAIN


def test_the_loader_knows_the_kinds_before_this_module_is_loaded() -> None:
    assert set(ConsumerGroupKind) == CONSUMER_GROUP_KINDS
