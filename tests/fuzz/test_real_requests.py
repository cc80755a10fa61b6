"""What the campaign mutates is real: each request is answered without an error of its form, each API has one."""

from __future__ import annotations

import random

from barnabas.protocol.messages.produce import ProduceRequest
from tests.fuzz.campaign import versions_served
from tests.fuzz.real_requests import MAKERS, TARGET, RealRequests
from tests.support.raw_client import RawClient
from tests.support.server_fixtures import Server


def test_every_api_has_a_real_request(client: RawClient) -> None:
    served = {api_key for api_key, _ in versions_served(client)}
    assert served <= MAKERS.keys(), sorted(api_key.name for api_key in served - MAKERS.keys())


def test_unchanged_requests_are_answered(server: Server, client: RawClient) -> None:
    client.create_topic(TARGET)
    requests = RealRequests(random.Random(1), client.topic_id(TARGET))
    for api_key, version in versions_served(client):
        request = requests.make(api_key, version)
        if isinstance(request, ProduceRequest):
            request.acks = 1  # none would mean no answer
        frame = client.encode(request, version, 5)
        with RawClient(server) as other:
            other.socket.sendall(frame)
            assert other.receive_frame()[:4] == (5).to_bytes(4, "big"), (api_key, version)
