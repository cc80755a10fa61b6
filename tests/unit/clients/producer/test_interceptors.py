"""A producer's interceptors: what they may return. Their calls by a producer are in test_producer."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.clients.producer.producer import Producer
from barnabas.clients.producer.producer_record import (
    OutgoingRecord,
    ProducerInterceptor,
    ProducerInterceptors,
    RecordMetadata,
)


class Named(ProducerInterceptor):
    """Gives each record its key."""

    def on_send(self, record: OutgoingRecord) -> OutgoingRecord:
        return record._replace(key=b"named")

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: BaseException | None) -> None:
        pass

    def close(self) -> None:
        pass


class Forgetful(Named):
    def on_send(self, record: OutgoingRecord) -> OutgoingRecord:
        return None  # type: ignore[return-value]  # as a function without `return` does


def test_an_interceptor_that_returns_no_record_is_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    record = OutgoingRecord("t", b"v", None, (), None, None)
    assert ProducerInterceptors([Forgetful(), Named()]).on_send(record) == record._replace(key=b"named")
    assert "on_send must return an OutgoingRecord, not None" in caplog.text


class WithoutClose:
    def on_send(self, record: OutgoingRecord) -> OutgoingRecord:
        return record

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: BaseException | None) -> None:
        pass


@pytest.mark.parametrize("wrong", ["counter", WithoutClose(), Named])
def test_an_object_without_the_methods_is_rejected_when_the_producer_is_made(wrong: Any) -> None:
    with pytest.raises(TypeError, match="must be objects with on_send, on_acknowledgement and close, not"):
        Producer("localhost:1", interceptor_classes=[wrong])
