"""Client quotas over the wire: set and shown as in Kafka, and they bite: the answer says for how long, then the
connection is not read for that long.

No time is asserted but that of a wait which must have passed; how exactly rates are kept is in tests/unit/quota, how
well real clients settle in tests/clients/test_quota_clients.py.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping

import pytest

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.fetch import FetchResponse
from barnabas.protocol.messages.produce import ProduceResponse
from barnabas.protocol.messages.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from barnabas.protocol.messages.topics import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from tests.support.raw_client import CLIENT_ID, SECONDS, ConnectionClosed, RawClient, make_batch
from tests.support.server_fixtures import MODES, Server, make_server
from tests.support.waiting import wait_until

EXACT, DEFAULT, SPECIFIED = 0, 1, 2
SAMPLES = 3
"""Of one second each: a short window, so that a test is over soon."""

Entity = dict[str, str | None]


@pytest.fixture(scope="module", params=MODES)
def limited_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with a short window, whose clients have quotas."""
    samples = {"quota_window_num": str(SAMPLES), "controller_quota_window_num": str(SAMPLES)}
    server = make_server(request.param, tmp_path_factory.mktemp("limited"), **samples)
    with server.running():
        yield server


@pytest.fixture
def limited(limited_server: Server) -> Iterator[RawClient]:
    """A connection to it. Afterwards its client has no quota any more."""
    with RawClient(limited_server) as client:
        yield client
    with RawClient(limited_server) as client:
        quotas = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
        alter(client, {"client-id": CLIENT_ID}, **dict.fromkeys(quotas))


def altered(
    client: RawClient,
    entity: Entity,
    quotas: Mapping[str, float | None],
    *,
    version: int = 1,
    validate_only: bool = False,
) -> AlterClientQuotasResponse.EntryData:
    """Change quotas of an entity; None takes one away. The answer's one entry."""
    parts = [AlterClientQuotasRequest.EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()]
    ops = [
        AlterClientQuotasRequest.OpData(key=key, value=value or 0.0, remove=value is None)
        for key, value in quotas.items()
    ]
    request = AlterClientQuotasRequest([AlterClientQuotasRequest.EntryData(parts, ops)], validate_only)
    (entry,) = client.call(request, version, AlterClientQuotasResponse).entries
    assert {part.entity_type: part.entity_name for part in entry.entity} == entity
    return entry


def alter(client: RawClient, entity: Entity, **quotas: float | None) -> None:
    """Change quotas of an entity, successfully, and wait until they are stored."""
    entry = altered(client, entity, quotas)
    assert entry.error_code == ErrorCode.NONE, entry


def described_all(
    client: RawClient, *components: tuple[str, int, str | None], strict: bool = False, version: int = 1
) -> DescribeClientQuotasResponse:
    """The answer to a description."""
    filters = [DescribeClientQuotasRequest.ComponentData(*component) for component in components]
    return client.call(DescribeClientQuotasRequest(filters, strict), version, DescribeClientQuotasResponse)


def described(
    client: RawClient, *components: tuple[str, int, str | None], strict: bool = False, version: int = 1
) -> list[tuple[Entity, dict[str, float]]]:
    """The entities, and the quotas of each."""
    answer = described_all(client, *components, strict=strict, version=version)
    assert answer.error_code == ErrorCode.NONE, answer
    return sorted(
        (
            (
                {part.entity_type: part.entity_name for part in entry.entity},
                {value.key: value.value for value in entry.values},
            )
            for entry in answer.entries or ()
        ),
        key=repr,
    )


# -- set and shown


@pytest.mark.parametrize("version", [0, 1])
def test_quotas_are_kept_and_shown(client: RawClient, version: int) -> None:
    user = f"CN=ünï {uuid.uuid4().hex}, O=a/b*c"  # such as TLS gives, and none that a path could have
    entities: list[Entity] = [{"user": user}, {"user": user, "client-id": "c"}, {"user": user, "client-id": None}]
    quotas = {"producer_byte_rate": 1000.0, "request_percentage": 12.5}
    for entity in entities:
        entry = altered(client, entity, quotas, version=version)
        assert (entry.error_code, entry.error_message) == (ErrorCode.NONE, None)
    of_user = ("user", EXACT, user)
    assert described(client, of_user, strict=True, version=version) == [({"user": user}, quotas)]
    assert described(client, of_user, ("client-id", DEFAULT, None), version=version) == [
        ({"user": user, "client-id": None}, quotas)
    ]
    found = described(client, of_user, version=version)
    assert len(found) == len(entities)
    assert all((entity, quotas) in found for entity in entities)
    # What is taken away leaves nothing behind, not even of a user who has only clients left.
    alter(client, {"user": user}, producer_byte_rate=None)
    assert described(client, of_user, strict=True) == [({"user": user}, {"request_percentage": 12.5})]
    for entity in entities:
        alter(client, entity, producer_byte_rate=None, request_percentage=None)
    assert described(client, of_user) == []


def test_default_entities_and_addresses(client: RawClient) -> None:
    entities: list[tuple[Entity, tuple[str, int, str | None]]] = [
        ({"user": None}, ("user", DEFAULT, None)),
        ({"client-id": None}, ("client-id", DEFAULT, None)),
        ({"ip": None}, ("ip", DEFAULT, None)),
        ({"ip": "10.9.8.7"}, ("ip", EXACT, "10.9.8.7")),
    ]
    for entity, component in entities:
        quota = {"connection_creation_rate" if "ip" in entity else "consumer_byte_rate": 1e9}
        alter(client, entity, **quota)
        assert described(client, component, strict=True) == [(entity, quota)]
        assert (entity, quota) in described(client)
        (kind,) = entity
        assert (entity, quota) in described(client, (kind, SPECIFIED, None))
        alter(client, entity, **dict.fromkeys(quota))
        assert described(client, component, strict=True) == []


def test_a_change_may_be_tried_only(client: RawClient) -> None:
    name = uuid.uuid4().hex
    assert altered(client, {"user": name}, {"producer_byte_rate": 5}, validate_only=True).error_code == ErrorCode.NONE
    assert described(client, ("user", EXACT, name)) == []


@pytest.mark.parametrize(
    ("entity", "quotas", "message"),
    [
        ({}, {}, "Invalid empty client quota entity"),
        ({"user": ""}, {}, "Empty user not supported"),
        ({"host": "a"}, {}, "Unhandled client quota entity type: host"),
        ({"user": "a"}, {"bytes": 1.0}, "Invalid configuration key bytes"),
        ({"user": "a"}, {"connection_creation_rate": 1.0}, "Invalid configuration key connection_creation_rate"),
        ({"ip": "1.1.1.1"}, {"producer_byte_rate": 1.0}, "Invalid configuration key producer_byte_rate"),
        ({"user": "a"}, {"producer_byte_rate": 1.5}, "Configuration producer_byte_rate must be a LONG value"),
        ({"ip": "1.1.1.1"}, {"connection_creation_rate": 0.5}, "must be a INT value"),
        ({"ip": "no.such.host.invalid"}, {}, "no.such.host.invalid is not a valid IP or resolvable host."),
        (
            {"ip": "1.1.1.1", "user": "a"},
            {},
            "Invalid quota entity combination, IP entity should not be used with user/client ID entity.",
        ),
    ],
)
def test_what_cannot_be_set(client: RawClient, entity: Entity, quotas: dict[str, float], message: str) -> None:
    entry = altered(client, entity, quotas)
    assert entry.error_code == ErrorCode.INVALID_REQUEST
    assert (entry.error_message or "").endswith(message)


@pytest.mark.parametrize(
    ("components", "code", "message"),
    [
        ([("", EXACT, "a")], ErrorCode.INVALID_REQUEST, "Unexpected empty filter component entity type"),
        ([("host", EXACT, "a")], ErrorCode.UNSUPPORTED_VERSION, "Custom entity type 'host' not supported"),
        ([("user", 1, None)] * 2, ErrorCode.INVALID_REQUEST, "Duplicate user filter component entity type"),
        ([("client-id", 1, None)] * 2, ErrorCode.INVALID_REQUEST, "Duplicate client filter component entity type"),
        (
            [("user", 1, None), ("ip", 1, None)],
            ErrorCode.INVALID_REQUEST,
            (
                "Invalid entity filter component combination, IP filter component should not be used with user or "
                "clientId filter component."
            ),
        ),
    ],
)
def test_what_cannot_be_asked_for(
    client: RawClient, components: list[tuple[str, int, str | None]], code: ErrorCode, message: str
) -> None:
    answer = described_all(client, *components)
    assert (answer.error_code, answer.error_message, answer.entries) == (code, message, None)


# -- they bite


def assert_muted_for(client: RawClient, throttle_time_ms: int, answered: float) -> None:
    """The next request of the connection is answered, and not before the throttle time has passed."""
    client.call(ApiVersionsRequest(), 0, ApiVersionsResponse)
    assert time.monotonic() - answered >= throttle_time_ms / 1000 - 0.05  # Kafka's clocks are not ours


def until_throttled(once: Callable[[], int]) -> int:
    """Repeat until an answer says that the connection is muted; for how many milliseconds."""
    deadline = time.monotonic() + SECONDS
    while True:
        throttle_time_ms = once()
        if throttle_time_ms:
            return throttle_time_ms
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize(("version", "acks"), [(3, -1), (9, 1)])
def test_a_producer_is_throttled(limited: RawClient, topic: str, acks: int, version: int) -> None:
    limited.create_topic(topic)
    request = limited.produce_request(topic, make_batch([b"x" * 20_000]), version, acks)
    assert limited.call(request, version, ProduceResponse).throttle_time_ms == 0
    alter(limited, {"client-id": CLIENT_ID}, producer_byte_rate=30_000)

    def produce() -> int:
        return limited.call(request, version, ProduceResponse).throttle_time_ms

    throttle_time_ms = until_throttled(produce)
    assert_muted_for(limited, throttle_time_ms, time.monotonic())
    alter(limited, {"client-id": CLIENT_ID}, producer_byte_rate=None)
    wait_until(lambda: not produce(), SECONDS)


def test_a_producer_that_wants_no_answer_is_muted(limited: RawClient, topic: str) -> None:
    limited.create_topic(topic)
    alter(limited, {"client-id": CLIENT_ID}, producer_byte_rate=30_000)
    request = limited.produce_request(topic, make_batch([b"x" * 20_000]), 9, 0)
    deadline = time.monotonic() + SECONDS
    waited = 0.0
    while waited < 0.1:  # two thirds of a second's worth, each
        sent = time.monotonic()
        assert sent < deadline
        limited.send(request, 9)
        limited.call(ApiVersionsRequest(), 0, ApiVersionsResponse)
        waited = time.monotonic() - sent


@pytest.mark.parametrize("version", [2, 12])
def test_a_consumer_is_throttled_and_gets_nothing(limited: RawClient, topic: str, version: int) -> None:
    limited.create_topic(topic)
    for _ in range(4):
        limited.produce_values(topic, b"x" * 10_000)
    request = limited.fetch_request(topic, 0, version)
    assert limited.call(request, version, FetchResponse).throttle_time_ms == 0
    alter(limited, {"client-id": CLIENT_ID}, consumer_byte_rate=16_000)
    answers: list[FetchResponse] = []

    def fetch() -> int:
        answers.append(limited.call(request, version, FetchResponse))
        return answers[-1].throttle_time_ms

    throttle_time_ms = until_throttled(fetch)
    assert answers[-1].responses == []
    assert_muted_for(limited, throttle_time_ms, time.monotonic())
    # What it did not get was not counted: it gets it now, but no more than the window lets pass at once.
    wait_until(lambda: not fetch(), SECONDS)
    (answered,) = answers[-1].responses
    (partition,) = answered.partitions
    assert partition.records
    assert len(partition.records) <= 16_000 * (SAMPLES - 1)


def test_the_time_of_requests_is_limited(limited: RawClient) -> None:
    alter(limited, {"client-id": CLIENT_ID}, request_percentage=0.0001)
    assert until_throttled(lambda: limited.call(ApiVersionsRequest(), 2, ApiVersionsResponse).throttle_time_ms) <= 1000


def test_a_user_is_limited_whatever_its_clients_are_called(limited: RawClient, topic: str) -> None:
    limited.create_topic(topic)
    request = limited.produce_request(topic, make_batch([b"x" * 20_000]), 9, 1)
    alter(limited, {"user": "ANONYMOUS"}, producer_byte_rate=30_000)
    try:
        until_throttled(lambda: limited.call(request, 9, ProduceResponse).throttle_time_ms)
    finally:
        alter(limited, {"user": "ANONYMOUS"}, producer_byte_rate=None)


def is_answered(server: Server) -> bool:
    """Whether a new connection is not closed instead."""
    with RawClient(server) as another:
        try:
            another.call(ApiVersionsRequest(), 0, ApiVersionsResponse)
        except (ConnectionClosed, ConnectionError):
            return False
        return True


def test_connections_of_an_address_are_limited(limited: RawClient, limited_server: Server) -> None:
    """Above its rate an address's new connections are closed, after a while; those it has live on."""
    alter(limited, {"ip": limited_server.host}, connection_creation_rate=1)
    wait_until(lambda: not is_answered(limited_server), SECONDS)
    alter(limited, {"ip": limited_server.host}, connection_creation_rate=None)
    wait_until(lambda: is_answered(limited_server), SECONDS)
    assert described(limited, ("ip", SPECIFIED, None)) == []


# -- controller mutations


def create(client: RawClient, name: str, partitions: int, version: int) -> tuple[int, int]:
    """Create a topic; its error code, and the throttle time."""
    new = CreateTopicsRequest.CreatableTopic(name, partitions, 1, [], [])
    answer = client.call(CreateTopicsRequest([new], SECONDS * 1000), version, CreateTopicsResponse)
    (result,) = answer.topics
    return result.error_code, answer.throttle_time_ms


def delete(client: RawClient, name: str) -> tuple[int, int]:
    """Delete a topic; its error code, and the throttle time."""
    request = DeleteTopicsRequest([DeleteTopicsRequest.DeleteTopicState(name)], [], SECONDS * 1000)
    answer = client.call(request, 6, DeleteTopicsResponse)
    (result,) = answer.responses
    return result.error_code, answer.throttle_time_ms


def test_topics_are_refused_when_there_is_no_credit_left(limited: RawClient, topic: str) -> None:
    alter(limited, {"client-id": CLIENT_ID}, controller_mutation_rate=8)
    number = 0

    def create_one() -> int:
        nonlocal number
        number += 1
        code, throttle_time_ms = create(limited, f"{topic}-{number}", 14, 7)
        assert code == (ErrorCode.THROTTLING_QUOTA_EXCEEDED if throttle_time_ms else ErrorCode.NONE)
        return throttle_time_ms

    throttle_time_ms = until_throttled(create_one)
    assert number > 1  # with one credit left any number of partitions is let through
    assert_muted_for(limited, throttle_time_ms, time.monotonic())
    assert create(limited, f"{topic}-{number}", 1, 7)[0] == ErrorCode.NONE
    # The other two requests share the credits.
    grown = CreatePartitionsRequest.CreatePartitionsTopic(f"{topic}-1", 20, None)

    def grow() -> int:
        answer = limited.call(CreatePartitionsRequest([grown], SECONDS * 1000, False), 3, CreatePartitionsResponse)
        (result,) = answer.results
        grown.count += 14
        assert result.error_code == (ErrorCode.THROTTLING_QUOTA_EXCEEDED if answer.throttle_time_ms else 0), result
        return answer.throttle_time_ms

    until_throttled(grow)
    assert delete(limited, f"{topic}-1") == (ErrorCode.NONE, 0)
    code, throttle_time_ms = delete(limited, f"{topic}-{number}")
    assert code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert throttle_time_ms > 0


def test_old_clients_are_only_made_to_wait(limited: RawClient, topic: str) -> None:
    alter(limited, {"client-id": CLIENT_ID}, controller_mutation_rate=8)
    number = 0

    def create_one() -> int:
        nonlocal number
        number += 1
        code, throttle_time_ms = create(limited, f"{topic}-{number}", 14, 5)
        assert code == ErrorCode.NONE
        return throttle_time_ms

    throttle_time_ms = until_throttled(create_one)
    assert_muted_for(limited, throttle_time_ms, time.monotonic())
