"""The rules one by one, their order, and that no shortcut lets through what a rule refuses."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from barnabas.config.log_config import LogConfig
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.records.compression import Codec
from barnabas.records.record_batch import BatchHeader
from barnabas.storage.log_append_info import AppendOrigin
from barnabas.storage.validation import rules, validator
from barnabas.storage.validation.rules import HEADER_RULES, ProducedBatch, TopicTerms, is_ordinary
from tests.support.mock_clock import MockClock
from tests.support.stored_batches import changed
from tests.unit.storage.log_harness import PARTITION, batch, log_config

TERMS = TopicTerms(PARTITION, 10_000, False, False, rules.UNLIMITED_MS, rules.UNLIMITED_MS)


def produced(data: bytes, origin: AppendOrigin = AppendOrigin.CLIENT) -> ProducedBatch:
    header = BatchHeader.parse(data)
    assert header is not None
    return ProducedBatch(header, memoryview(data), origin)


def first_broken(data: bytes, origin: AppendOrigin = AppendOrigin.CLIENT) -> str | None:
    for rule in HEADER_RULES:
        try:
            rule(produced(data, origin), TERMS)
        except ApiError:
            return rule.__name__
    return None


@pytest.mark.parametrize(
    ("data", "rule"),
    [
        (batch(2), None),
        (changed(batch(2), base_offset=5), "base_offset_is_zero"),
        (batch(1, size=10_000), "is_small_enough"),
        (changed(batch(2), crc=1, fix_crc=False), "checksum_is_right"),
        (changed(batch(2), length=40), "checksum_is_right"),
        (changed(batch(2), attributes=5), "codec_exists"),
        (batch(2) + batch(2), "is_alone"),
        (batch(2) + batch(2)[:-1], None),
        (changed(batch(2), last_delta=-1), "offsets_go_forward"),
        (changed(batch(2), count=0), "count_is_positive"),
        (changed(batch(2), count=3), "count_matches_offsets"),
        (changed(batch(2), attributes=0x20), "is_data"),
        (changed(batch(2), producer_id=9, producer_epoch=0, base_sequence=-1), "producer_has_sequence"),
    ],
)
def test_each_rule(data: bytes, rule: str | None) -> None:
    assert first_broken(data) == rule


def test_brokers_are_held_to_less() -> None:
    for data in (changed(batch(2), base_offset=5), changed(batch(2), attributes=0x20), changed(batch(2), count=3)):
        assert first_broken(data, AppendOrigin.COORDINATOR) is None
    assert first_broken(changed(batch(2), crc=1, fix_crc=False), AppendOrigin.COORDINATOR) == "checksum_is_right"


def test_of_several_faults_kafkas_first_is_told() -> None:
    assert first_broken(changed(batch(2), base_offset=5, crc=1, fix_crc=False)) == "base_offset_is_zero"
    assert first_broken(changed(batch(2), attributes=7, count=9)) == "codec_exists"
    assert first_broken(changed(batch(2), attributes=0x20, count=9)) == "count_matches_offsets"


def test_the_shortcut_lets_nothing_through() -> None:
    """Random headers with a right checksum: what is ordinary breaks no rule."""
    chance = random.Random(3)
    fields = (
        *("base_offset", "attributes", "last_delta", "base_timestamp", "max_timestamp"),
        *("producer_id", "producer_epoch", "base_sequence", "count"),
    )
    ordinary = 0
    for _ in range(5000):
        lies = {name: chance.choice((-2, -1, 0, 1, 2, 3, 4, 8, 16, 32)) for name in chance.sample(fields, 2)}
        data = changed(batch(chance.choice((1, 2)), codec=chance.choice(tuple(Codec))), fix_crc=True, **lies)
        data += chance.choice((b"", b"", b"", b"x"))
        case = produced(data)
        if is_ordinary(case.header, len(data), memoryview(data)[21:], TERMS.max_message_bytes):
            ordinary += 1
            assert first_broken(data) is None, lies
    assert ordinary > 200, "else this shows nothing"


def store_in(config: LogConfig) -> Callable[[bytes], object]:
    checks = validator.LogValidator(config, PARTITION, MockClock())
    return lambda data: checks.validate(data, AppendOrigin.CLIENT)


@pytest.mark.interpreted
def test_a_new_rule_needs_only_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """For headers and for records, at every level."""

    def has_no_producer(candidate: ProducedBatch, terms: TopicTerms) -> None:
        if candidate.header.producer_id >= 0:
            raise ApiError(ErrorCode.POLICY_VIOLATION)

    monkeypatch.setattr(validator, "HEADER_RULES", (*HEADER_RULES, has_no_producer))
    for level in ("header", "framing", "full"):
        store = store_in(log_config(record_validation=level))
        assert store(batch(2)) is not None
        with pytest.raises(ApiError):
            store(changed(batch(2), producer_id=9, producer_epoch=0, base_sequence=0))


@pytest.mark.interpreted
def test_a_new_rule_for_records_needs_only_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    from barnabas.storage.validation import record_rules

    def has_value(record: object, case: object, terms: object) -> rules.BlamedRecord | None:
        return rules.BlamedRecord(ErrorCode.INVALID_RECORD, "no") if record.value == b"\1" * 20 else None  # type: ignore[attr-defined]

    monkeypatch.setattr(record_rules, "RECORD_RULES", (*rules.RECORD_RULES, has_value))
    for level in ("header", "framing", "full"):
        store = store_in(log_config(record_validation=level))
        assert store(batch(1)) is not None
        with pytest.raises(ApiError) as refused:
            store(batch(3))
        assert [index for index, _ in refused.value.record_errors] == [1]  # type: ignore[attr-defined]
