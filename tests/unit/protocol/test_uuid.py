"""Kafka's UUIDs in text."""

from __future__ import annotations

import random
import uuid

import pytest

from barnabas.protocol.uuid import ZERO_UUID, random_java_uuid, random_uuid, uuid_from_string, uuid_to_string


def test_text_is_kafkas() -> None:
    # The metadata topic's id, as org.apache.kafka.common.Uuid prints it.
    assert uuid_to_string(bytes(15) + b"\1") == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert uuid_to_string(ZERO_UUID) == "AAAAAAAAAAAAAAAAAAAAAA"
    assert uuid_from_string("AAAAAAAAAAAAAAAAAAAAAQ") == bytes(15) + b"\1"


def test_a_java_uuid_reads_as_one() -> None:
    made = random_java_uuid()
    assert str(uuid.UUID(made)) == made
    assert uuid.UUID(made).version == 4
    assert random_java_uuid() != made


def test_random_ids_are_version_4_and_never_begin_with_a_dash() -> None:
    source = random.Random(1)
    for _ in range(500):
        made = random_uuid(source)
        assert uuid.UUID(bytes=made).version == 4
        assert not uuid_to_string(made).startswith("-")
        assert uuid_from_string(uuid_to_string(made)) == made


@pytest.mark.parametrize("text", ["", "AAAA", "A" * 25, "!AAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAAAA"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="Input string"):
        uuid_from_string(text)
