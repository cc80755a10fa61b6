"""What consumers tell each other: Kafka's bytes, and no trust in other people's."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.protocol.consumer_protocol import (
    Assignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from barnabas.protocol.errors import DecodeError
from barnabas.protocol.topic_partition import TopicPartition

names = st.text(min_size=1, max_size=8)
partitions = st.lists(st.builds(TopicPartition, names, st.integers(0, 2**31 - 1)), max_size=6, unique=True)
user_data = st.none() | st.binary(max_size=9)


@given(
    topics=st.lists(names, max_size=4, unique=True),
    data=user_data,
    owned=partitions,
    generation=st.integers(-1, 2**31 - 1),
    rack=st.none() | names,
    version=st.integers(0, 3),
)
def test_a_subscription_survives_in_each_version(
    topics: list[str], data: bytes | None, owned: list[TopicPartition], generation: int, rack: str | None, version: int
) -> None:
    subscription = Subscription(tuple(topics), data, tuple(owned), generation, rack)
    assert decode_subscription(encode_subscription(subscription, version), "me") == Subscription(
        tuple(sorted(topics)),
        data,
        tuple(sorted(owned)) if version >= 1 else (),
        generation if version >= 2 else -1,
        rack if version >= 3 else None,
        "me",
    )


@given(partitions, user_data)
def test_an_assignment_survives(assigned: list[TopicPartition], data: bytes | None) -> None:
    found = decode_assignment(encode_assignment(Assignment(tuple(assigned), data)))
    assert (sorted(found.partitions), found.user_data) == (sorted(assigned), data)


def test_a_newer_version_is_read_as_the_newest_known() -> None:
    data = bytearray(encode_subscription(Subscription(("t",), rack_id="r")))
    data[:2] = (99).to_bytes(2, "big")
    assert decode_subscription(bytes(data) + b"more").rack_id == "r"


@given(st.binary(max_size=60))
def test_nothing_but_decode_errors(data: bytes) -> None:
    for decode in (decode_subscription, decode_assignment):
        with contextlib.suppress(DecodeError):
            decode(data)


def test_what_is_cut_off_is_refused() -> None:
    data = encode_subscription(Subscription(("topic",), b"x", (TopicPartition("topic", 1),), 5, "rack"))
    for length in range(len(data)):
        with pytest.raises(DecodeError):
            decode_subscription(data[:length])
