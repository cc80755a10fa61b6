"""The producer's settings where they depend on each other."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.clients.producer.producer_config import ProducerConfig


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, True),
        ({"enable_idempotence": False}, False),
        ({"acks": "all", "retries": 1, "max_in_flight_requests_per_connection": 5}, True),
        ({"acks": 1}, False),
        ({"acks": 0}, False),
        ({"retries": 0}, False),
        ({"max_in_flight_requests_per_connection": 6}, False),
    ],
)
def test_idempotence_is_on_unless_a_given_setting_rules_it_out(settings: Any, expected: bool) -> None:
    assert ProducerConfig(**settings).is_idempotent is expected


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"acks": 1}, "Must set acks to all in order to use the idempotent producer, not to 1."),
        ({"retries": 0}, "Must set retries to non-zero"),
        ({"max_in_flight_requests_per_connection": 6}, "at most 5 to use the idempotent producer, not to 6."),
    ],
)
def test_idempotence_that_was_asked_for_contradicts_them(settings: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        ProducerConfig(enable_idempotence=True, **settings)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"linger": 5}, "ProducerConfig has no setting 'linger'; did you mean 'linger_ms'?"),
        ({"batch.size": 5}, "did you mean 'batch_size'?"),
        ({"compresion_type": "lz4"}, "did you mean 'compression_type'?"),
        ({"colour": "red"}, "has no setting 'colour'$"),
        ({"linger_ms": "5"}, "linger_ms must be int, not '5'"),
        ({"linger_ms": True}, "linger_ms must be int, not True"),
        ({"compression_type": None}, "compression_type must be str, not None"),
        ({"enable_idempotence": 1}, r"enable_idempotence must be bool \| None, not 1"),
        ({"acks": "some"}, "acks must be"),
        ({"interceptor_classes": "mine"}, "interceptor_classes must be Sequence"),
        ({"value_serializer": 5}, "value_serializer must be a name, a function or an object with `serialize`, not 5"),
        ({"partitioner_class": 5}, "partitioner_class must be a name or a function, not 5"),
    ],
)
def test_wrong_names_and_types(settings: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        ProducerConfig(**settings)


def test_wrong_names_of_serializers_and_partitioners() -> None:
    with pytest.raises(ValueError, match="key_serializer must be bytes, str, json or a function, not 'avro'"):
        ProducerConfig(key_serializer="avro")
    with pytest.raises(ValueError, match="partitioner_class must be sticky, round_robin or a function, not 'random'"):
        ProducerConfig(partitioner_class="random")


def test_transactions_need_idempotence() -> None:
    assert ProducerConfig(transactional_id="t").is_idempotent
    with pytest.raises(ValueError, match="without also enabling idempotence"):
        ProducerConfig(transactional_id="t", enable_idempotence=False)
    with pytest.raises(ValueError, match="acks to all"):
        ProducerConfig(transactional_id="t", acks=1)
    with pytest.raises(ValueError, match="empty"):
        ProducerConfig(transactional_id="")
