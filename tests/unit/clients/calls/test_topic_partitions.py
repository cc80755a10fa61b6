"""The look-up of a topic's partitions: unknown topics, topics in creation, errors, what the consumer knows already."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.clients.consumer.consumer import Consumer
from barnabas.clients.errors import ClientTimeout
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.message import Message
from tests.support.client_metadata import metadata_response
from tests.support.scripted_cluster import ScriptedCluster
from tests.support.scripted_selector import SentRequest


class LookUps:
    """A consumer whose look-ups of the topic "asked" get these answers in turn, the last one for good."""

    def __init__(self, *answers: Any, **settings: Any) -> None:
        self.answers = list(answers)
        self.asked: list[SentRequest] = []
        self.cluster = ScriptedCluster({"t": [0, 0]})
        self._answer_others = self.cluster.handlers[ApiKey.METADATA]
        self.cluster.handlers[ApiKey.METADATA] = self._answer
        self.consumer = Consumer("", client=self.cluster.client(), **settings)

    def _answer(self, request: SentRequest) -> Message:
        if [topic.name for topic in request.body.topics or ()] != ["asked"]:
            others: Message = self._answer_others(request)
            return others
        self.asked.append(request)
        return metadata_response({"asked": self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]})


@pytest.mark.parametrize("may_create", [True, False])
def test_an_unknown_topic_has_no_partitions(may_create: bool) -> None:
    look_ups = LookUps(int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), allow_auto_create_topics=may_create)
    before_ms = look_ups.consumer.config.default_api_timeout_ms + look_ups.cluster.clock.milliseconds()
    assert look_ups.consumer.partitions_for("asked") == ()
    (request,) = look_ups.asked
    assert request.body.allow_auto_topic_creation is may_create
    assert look_ups.cluster.clock.milliseconds() < before_ms - 50_000


def test_a_topic_in_creation_is_asked_for_again() -> None:
    error = int(ErrorCode.LEADER_NOT_AVAILABLE)
    look_ups = LookUps(error, error, [0, 0, 0], retry_backoff_ms=100)
    assert [each.partition for each in look_ups.consumer.partitions_for("asked")] == [0, 1, 2]
    assert len(look_ups.asked) == 3


def test_the_wait_for_a_topic_in_creation_ends() -> None:
    look_ups = LookUps(int(ErrorCode.LEADER_NOT_AVAILABLE), default_api_timeout_ms=5_000)
    with pytest.raises(ClientTimeout, match="asked: LEADER_NOT_AVAILABLE"):
        look_ups.consumer.partitions_for("asked")
    assert len(look_ups.asked) > 2


@pytest.mark.parametrize("error", [ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.TOPIC_AUTHORIZATION_FAILED])
def test_other_errors_are_raised(error: ErrorCode) -> None:
    look_ups = LookUps(int(error))
    with pytest.raises(ApiError, match="Topic: asked") as raised:
        look_ups.consumer.partitions_for("asked")
    assert raised.value.code is error
    assert len(look_ups.asked) == 1


def test_a_topic_that_is_looked_up_is_not_followed() -> None:
    look_ups = LookUps([0])
    for _ in range(2):
        assert len(look_ups.consumer.partitions_for("asked")) == 1
    assert len(look_ups.asked) == 2
