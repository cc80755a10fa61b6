"""Our producer sends in each session what Apache Kafka's producer was recorded to send, in the same order.

What depends on the machine or on a producer's threads is left out of a trace; `traced_broker` says what. The recordings
are of the Kafka 4 in tests/wire/kafka-clients-4.xml.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.clients.producer_traces.play import RECORDED, JavaPlayer, play_ours
from tests.clients.producer_traces.sessions import SESSIONS, Session
from tests.support.maven import counterparts_needed

KAFKAS: dict[str, Any] = json.loads(RECORDED.read_text())


def test_each_session_is_recorded() -> None:
    assert list(KAFKAS) == [session.name for session in SESSIONS]


SPLIT = "a batch that is too large is split"
"""Kafka's producer splits by batch.size alone: it sends a batch that is smaller again as it was, which a broker refuses
for ever. Ours takes at most five eighths of the batch for each piece."""


def with_smaller_pieces(kafkas: dict[str, Any]) -> dict[str, Any]:
    """Kafka's session SPLIT, with the pieces that ours sends instead of the whole batch."""
    trace = list(kafkas["trace"])
    (identity, values) = trace[4][3][0][:5], trace[4][3][0][5]
    pieces = [[*identity, values[:3]], [*identity[:3], identity[3] + 3, identity[4], values[3:]]]
    trace[4:5] = [[*trace[4][:3], [piece]] for piece in pieces]
    return {**kafkas, "trace": trace}


@pytest.mark.parametrize("session", SESSIONS, ids=lambda session: session.name)
def test_our_producer_sends_what_kafkas_does(session: Session) -> None:
    kafkas = KAFKAS[session.name]
    expected = with_smaller_pieces(kafkas) if session.name == SPLIT else kafkas
    assert play_ours(session) == expected


@pytest.mark.java
def test_the_recordings_are_of_kafkas_producer() -> None:
    with counterparts_needed(), JavaPlayer() as player:
        assert {session.name: player.play(session) for session in SESSIONS} == KAFKAS
