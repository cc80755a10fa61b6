"""Settings of brokers change while they run (KIP-226): what is refused, in which words, what is shown, what holds."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import pytest

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.protocol.messages.transactions import (
    DescribeProducersRequest,
    DescribeProducersResponse,
)
from tests.support.broker_log import wait_for_log_line
from tests.support.raw_client import ConnectionClosed, RawClient, make_batch
from tests.support.server_fixtures import AGAINST_KAFKA, MODES, Server, make_server
from tests.support.server_process import free_port
from tests.support.settings_client import (
    ALL_BROKERS,
    APPEND,
    BROKER,
    BROKER_LOGGER,
    CLIENT_METRICS,
    DEFAULT,
    DELETE,
    DYNAMIC_BROKER,
    DYNAMIC_DEFAULT,
    DYNAMIC_LOGGER,
    DYNAMIC_TOPIC,
    GROUP,
    OK,
    SET,
    STATIC,
    SUBTRACT,
    TOPIC,
    SettingsClient,
    Shown,
    eventually,
)

THREADS = "Dynamic thread count update validation failed for {}, value should "
RETENTION_MS = 604_800_000
ours_only = pytest.mark.skipif(AGAINST_KAFKA, reason="ours differs")


@pytest.fixture(scope="module", params=MODES)
def own(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose settings these tests change, and change back."""
    server = make_server(
        request.param,
        tmp_path_factory.mktemp("dynamic"),
        producer_id_expiration_check_interval_ms="100",
        log_initial_task_delay_ms="100",
        num_io_threads="8",
    )
    with server.running():
        yield server


@pytest.fixture
def asking(own: Server) -> SettingsClient:
    """For tests that change nothing."""
    return SettingsClient(own)


@pytest.fixture
def settings(asking: SettingsClient) -> Iterator[SettingsClient]:
    """Changes settings; afterwards there are none of brokers."""
    yield asking
    for name in ("0", ALL_BROKERS):
        assert asking.replace(BROKER, name) == OK
    changed = (DYNAMIC_BROKER, DYNAMIC_DEFAULT)
    eventually(lambda: not any(shown.source in changed for shown in asking.describe(BROKER, "0").values()))


def wrapped(message: str) -> str:
    """How a client hears of what a part of the broker says."""
    exception = f"org.apache.kafka.common.config.ConfigException: {message}"
    return f"Invalid value {exception} for configuration Invalid dynamic configuration"


REFUSED = [
    ("0", "num.partitions", "3", "Cannot update these configs dynamically: Set(num.partitions)"),
    ("0", "num.io.threads", "x", "Invalid value x for configuration num.io.threads: Not a number of type INT"),
    ("0", "num.io.threads", "0", "Invalid value 0 for configuration num.io.threads: Value must be at least 1"),
    (
        "0",
        "num.io.threads",
        "17",
        wrapped(THREADS.format("num.io.threads=17") + "not be greater than double the current value 8"),
    ),
    (
        ALL_BROKERS,
        "num.io.threads",
        "3",
        wrapped(THREADS.format("num.io.threads=3") + "be at least half the current value 8"),
    ),
    (
        "0",
        "background.threads",
        "21",
        wrapped(THREADS.format("background.threads=21") + "not be greater than double the current value 10"),
    ),
    (
        "0",
        "num.network.threads",
        "7",
        wrapped(THREADS.format("num.network.threads=7") + "not be greater than double the current value 3"),
    ),
    (
        "0",
        "listener.name.plaintext.num.network.threads",
        "7",
        wrapped(THREADS.format("num.network.threads=7") + "not be greater than double the current value 3"),
    ),
    ("0", "listener.name.plaintext.max.connections", "0", wrapped("Invalid max.connections 0")),
    ("0", "max.connections", "0", wrapped("Invalid max.connections 0")),
    (
        ALL_BROKERS,
        "max.connections",
        "-1",
        "Invalid value -1 for configuration max.connections: Value must be at least 0",
    ),
    ("0", "max.connection.creation.rate", "0", wrapped("Invalid max.connection.creation.rate 0")),
    (
        "0",
        "max.connections.per.ip",
        "0",
        (
            "requirement failed: max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides "
            "property is set."
        ),
    ),
    (
        "0",
        "log.cleaner.threads",
        "3",
        wrapped("Log cleaner threads cannot be increased to more than double the current value 1"),
    ),
    (
        "0",
        "log.cleaner.dedupe.buffer.size",
        "1000",
        "requirement failed: log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.",
    ),
    (
        "0",
        "log.retention.ms",
        "0",
        "requirement failed: log.retention.ms must be unlimited (-1) or, greater than or equal to 1",
    ),
    (ALL_BROKERS, "log.roll.ms", "0", "requirement failed: log.roll.ms must be greater than or equal to 1"),
    (
        "0",
        "log.cleanup.policy",
        "burn",
        "Invalid value burn for configuration log.cleanup.policy: String must be one of: compact, delete",
    ),
    (
        "0",
        "log.local.retention.ms",
        "-1",
        wrapped(
            "Invalid value -1 for configuration log.local.retention.ms: "
            f"Value must not be -1 as log.retention.ms value is set as {RETENTION_MS}."
        ),
    ),
    (
        "0",
        "ssl.keystore.location",
        "/x",
        (
            "These security configs can be dynamically updated only per-listener using the listener prefix: "
            "HashSet(ssl.keystore.location)"
        ),
    ),
    (
        ALL_BROKERS,
        "listeners",
        "PLAINTEXT://:1",
        "Cannot update these configs at default cluster level, broker id must be specified: Set(listeners)",
    ),
    (
        ALL_BROKERS,
        "listener.name.plaintext.ssl.keystore.location",
        "/x",
        (
            "Cannot update these configs at default cluster level, broker id must be specified: "
            "Set(listener.name.plaintext.ssl.keystore.location)"
        ),
    ),
    (
        "0",
        "leader.replication.throttled.rate",
        "-1",
        "Invalid value -1 for configuration leader.replication.throttled.rate: Value must be at least 0",
    ),
    ("7", "num.io.threads", "9", "Unexpected broker id, expected 0, but received 7"),
    ("seven", "num.io.threads", "9", "Node id must be an integer, but it is: seven"),
]


@pytest.mark.parametrize(("broker", "name", "value", "message"), REFUSED)
def test_settings_that_are_refused(asking: SettingsClient, broker: str, name: str, value: str, message: str) -> None:
    expected = (ErrorCode.INVALID_REQUEST, message)
    assert asking.change(BROKER, broker, (name, SET, value)) == expected
    assert asking.replace(BROKER, broker, (name, value)) == expected
    assert asking.change(BROKER, broker, (name, SET, value), validate_only=True) == expected


def test_secrets_are_not_kept_where_everybody_could_read_them(asking: SettingsClient) -> None:
    name = "listener.name.plaintext.ssl.keystore.password"
    reason = "Password encoder secret not configured"
    message = f"Invalid config value for resource ConfigResource(type=BROKER, name='0'): {reason}"
    assert asking.change(BROKER, "0", (name, SET, "secret")) == (ErrorCode.INVALID_CONFIG, message)
    assert name not in asking.describe(BROKER, "0")


@ours_only
def test_secrets_that_are_refused_are_not_logged(own: Server, settings: SettingsClient) -> None:
    name = "listener.name.plaintext.ssl.keystore.password"
    assert settings.change(BROKER, "0", (name, SET, "open sesame"))[0] == ErrorCode.INVALID_CONFIG
    assert settings.replace(BROKER, "0", (name, "open sesame"))[0] == ErrorCode.INVALID_CONFIG
    wait_for_log_line(own, name)
    assert "sesame" not in own.log_text()


def test_only_lists_can_be_appended_to(asking: SettingsClient) -> None:
    expected = (ErrorCode.INVALID_CONFIG, "Config value append is not allowed for config key: num.io.threads")
    assert asking.change(BROKER, "0", ("num.io.threads", APPEND, "1")) == expected
    assert asking.change(BROKER, "0", ("num.io.threads", 7, "9")) == (
        ErrorCode.INVALID_REQUEST,
        "Unknown operations type 7",
    )


@ours_only
def test_unknown_settings_are_refused(settings: SettingsClient) -> None:
    """Kafka keeps them for its plug-ins; a typing error then stays unnoticed."""
    message = "Unknown Dynamic Configuration: Set(num.io.thread)."
    assert settings.change(BROKER, "0", ("num.io.thread", SET, "9")) == (ErrorCode.INVALID_REQUEST, message)
    assert settings.change(BROKER, "0", ("rsm.config.anything", SET, "9")) == OK


def test_deleting_what_is_not_set_is_fine(asking: SettingsClient) -> None:
    assert asking.change(BROKER, "0", ("num.partitions", DELETE, None), ("no.such", DELETE, None)) == OK


def test_validate_only_changes_nothing(settings: SettingsClient) -> None:
    assert settings.change(BROKER, "0", ("num.io.threads", SET, "9"), validate_only=True) == OK
    assert settings.replace(BROKER, "0", ("num.io.threads", "9"), validate_only=True) == OK
    assert settings.change(BROKER, "0", ("log.cleaner.backoff.ms", SET, "20")) == OK
    eventually(lambda: settings.describe(BROKER, "0")["log.cleaner.backoff.ms"].value == "20")
    assert settings.describe(BROKER, "0")["num.io.threads"].value == "8"


def test_where_a_value_comes_from(settings: SettingsClient) -> None:
    """Of this broker, of all, of the file, default: what comes first holds."""
    settings.set(ALL_BROKERS, num_io_threads="10", log_retention_ms="5000")
    settings.set("0", num_io_threads="12", log_retention_ms="6000", max_connections_per_ip=" 7777 ")
    shown = settings.describe(BROKER, "0")
    assert shown["num.io.threads"][:2] == ("12", DYNAMIC_BROKER)
    assert shown["num.io.threads"].synonyms == [
        ("num.io.threads", "12", DYNAMIC_BROKER),
        ("num.io.threads", "10", DYNAMIC_DEFAULT),
        ("num.io.threads", "8", STATIC),
        ("num.io.threads", "8", DEFAULT),
    ]
    assert shown["log.retention.ms"].synonyms[:2] == [
        ("log.retention.ms", "6000", DYNAMIC_BROKER),
        ("log.retention.ms", "5000", DYNAMIC_DEFAULT),
    ]
    assert shown["log.retention.ms"].synonyms[-1] == ("log.retention.hours", "168", DEFAULT)
    assert shown["log.retention.hours"].value == "168"
    assert shown["max.connections.per.ip"].value == "7777"
    assert shown["max.connections.per.ip"].synonyms[0] == ("max.connections.per.ip", " 7777 ", DYNAMIC_BROKER)
    assert {name: each[:2] for name, each in settings.describe(BROKER, ALL_BROKERS).items()} == {
        "num.io.threads": ("10", DYNAMIC_DEFAULT),
        "log.retention.ms": ("5000", DYNAMIC_DEFAULT),
    }
    settings.set("0", num_io_threads=None)
    assert settings.describe(BROKER, "0")["num.io.threads"][:2] == ("10", DYNAMIC_DEFAULT)


def test_settings_that_no_file_has_and_those_of_one_listener(settings: SettingsClient) -> None:
    listeners = "listener.name.plaintext.max.connections"
    changes = (("leader.replication.throttled.rate", SET, "1000"), (listeners, SET, "1000"))
    assert settings.change(BROKER, ALL_BROKERS, *changes) == OK
    eventually(lambda: listeners in settings.describe(BROKER, "0"))
    shown = settings.describe(BROKER, "0")
    rate = [("leader.replication.throttled.rate", "1000", DYNAMIC_DEFAULT)]
    assert shown["leader.replication.throttled.rate"] == ("1000", DYNAMIC_DEFAULT, True, False, rate)
    assert shown[listeners].synonyms == [
        (listeners, "1000", DYNAMIC_DEFAULT),
        ("max.connections", "2147483647", DEFAULT),
    ]


def test_replacing_takes_away_what_is_not_named(settings: SettingsClient) -> None:
    settings.set("0", num_io_threads="9", log_cleaner_backoff_ms="20")
    assert settings.replace(BROKER, "0", ("num.io.threads", "10")) == OK
    eventually(lambda: settings.describe(BROKER, "0")["num.io.threads"].value == "10")
    assert settings.describe(BROKER, "0")["log.cleaner.backoff.ms"][:2] == ("15000", DEFAULT)


def test_node_id_and_broker_id_are_the_same_number(asking: SettingsClient) -> None:
    shown = asking.describe(BROKER, "0", ["node.id", "broker.id"])
    assert {name: (each.value, each.is_read_only) for name, each in shown.items()} == {
        "node.id": ("0", True),
        "broker.id": ("0", True),
    }


def test_topics_follow_the_brokers_defaults(own: Server, settings: SettingsClient, topic: str) -> None:
    with RawClient(own) as client:
        client.create_topic(topic)
        client.create_topic(f"{topic}-own", configs={"max.message.bytes": "5000"})
        large = make_batch([b"x" * 2000])
        assert client.produce(topic, large).error_code == ErrorCode.NONE
        settings.set(ALL_BROKERS, message_max_bytes="1000")
        eventually(lambda: client.produce(topic, large).error_code == ErrorCode.MESSAGE_TOO_LARGE)
        assert client.produce(f"{topic}-own", large).error_code == ErrorCode.NONE
        shown = settings.describe(TOPIC, topic)["max.message.bytes"]
        assert (shown.value, shown.source) == ("1000", DYNAMIC_DEFAULT)
        assert shown.synonyms == [
            ("message.max.bytes", "1000", DYNAMIC_DEFAULT),
            ("message.max.bytes", "1048588", DEFAULT),
        ]
        client.create_topic(f"{topic}-new")
        assert client.produce(f"{topic}-new", large).error_code == ErrorCode.MESSAGE_TOO_LARGE
        settings.set("0", message_max_bytes="3000")
        eventually(lambda: client.produce(topic, large).error_code == ErrorCode.NONE)
        own_bytes = settings.describe(TOPIC, f"{topic}-own")["max.message.bytes"]
        assert [source for _, _, source in own_bytes.synonyms] == [
            DYNAMIC_TOPIC,
            DYNAMIC_BROKER,
            DYNAMIC_DEFAULT,
            DEFAULT,
        ]


def _is_served(client: RawClient) -> bool:
    try:
        return bool(client.supported_versions())
    except (ConnectionClosed, ConnectionError):
        return False


def test_connections_of_one_address_are_limited_from_now_on(own: Server, settings: SettingsClient) -> None:
    limit = 6  # the controller has a connection to its broker, too
    settings.set(ALL_BROKERS, max_connections_per_ip=str(limit))
    with contextlib.ExitStack() as open_clients:
        served = 0
        while _is_served(open_clients.enter_context(RawClient(own))):
            served += 1
        assert limit - 3 <= served <= limit


def test_listeners_are_added_and_removed(own: Server, settings: SettingsClient) -> None:
    port = free_port()
    before = settings.describe(BROKER, "0")["listeners"].value
    wanted = f"{before},SECOND://127.0.0.1:{port}"
    advertised = settings.describe(BROKER, "0")["advertised.listeners"].value
    changes = [
        ("listeners", SET, wanted),
        ("listener.security.protocol.map", SET, "PLAINTEXT:PLAINTEXT,SECOND:PLAINTEXT"),
    ]
    if advertised is not None:
        changes.append(("advertised.listeners", SET, f"{advertised},SECOND://127.0.0.1:{port}"))
    assert settings.change(BROKER, "0", *changes) == OK

    def is_open() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    def told_ports() -> list[int]:
        with Through(own, port) as client:
            return [broker.port for broker in client.call(MetadataRequest([]), 9, MetadataResponse).brokers]

    eventually(lambda: is_open() and told_ports() == [port])
    assert settings.change(BROKER, "0", *((name, DELETE, None) for name, _, _ in changes)) == OK
    eventually(lambda: not is_open())
    with RawClient(own) as client:
        (broker,) = client.call(MetadataRequest([]), 9, MetadataResponse).brokers
        assert broker.port == own.port


@ours_only
def test_an_address_that_cannot_be_opened_is_not_advertised(own: Server, settings: SettingsClient) -> None:
    """Kafka advertises it, and after that neither opens another one nor takes it back."""
    before = settings.describe(BROKER, "0")["listeners"].value
    assert before is not None
    elsewhere = before.rpartition(":")[0] + f":{free_port()}"
    names = "PLAINTEXT:PLAINTEXT,SECOND:PLAINTEXT"

    def told_ports(port: int) -> list[int]:
        try:
            with Through(own, port) as client:
                return [broker.port for broker in client.call(MetadataRequest([]), 9, MetadataResponse).brokers]
        except ConnectionRefusedError:
            return []

    with socket.create_server(("127.0.0.1", 0)) as taken:
        wanted = f"{before},SECOND://127.0.0.1:{taken.getsockname()[1]}"
        settings.set("0", listeners=wanted, listener_security_protocol_map=names)
        eventually(lambda: "SECOND" in own.log_text() and told_ports(own.port) == [own.port])
    port = free_port()
    settings.set("0", listeners=f"{elsewhere},SECOND://127.0.0.1:{port}")
    eventually(lambda: told_ports(port) == [port])
    assert told_ports(own.port) == [own.port], "a listener that is open keeps its address"


@ours_only
def test_advertised_listeners_that_follow_from_listeners_are_shown(own: Server, settings: SettingsClient) -> None:
    """Kafka shows null, by default. A listener added later is shown too: it is advertised, and nothing is pinned."""

    def shown() -> tuple[str | None, int]:
        advertised = settings.describe(BROKER, "0", ["advertised.listeners"])["advertised.listeners"]
        assert [(name, source) for name, _, source in advertised.synonyms] == [("listeners", STATIC)]
        return advertised.value, advertised.source

    at_start = f"PLAINTEXT://{own.host}:{own.port}"
    eventually(lambda: shown() == (at_start, STATIC))  # a listener of the test before may go a moment later
    before, port = settings.describe(BROKER, "0")["listeners"].value, free_port()
    settings.set(
        "0",
        listeners=f"{before},SECOND://127.0.0.1:{port}",
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,SECOND:PLAINTEXT",
    )
    eventually(lambda: shown() == (f"{at_start},SECOND://127.0.0.1:{port}", STATIC))
    settings.set("0", listeners=None, listener_security_protocol_map=None)
    eventually(lambda: shown() == (at_start, STATIC))


class Through(RawClient):
    """A client that uses another listener of the server."""

    def __init__(self, server: Server, port: int) -> None:
        super().__init__(Address(server.host, port))  # type: ignore[arg-type]


class Address:
    """Where a listener is."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port


def test_idle_producers_are_forgotten_sooner(own: Server, settings: SettingsClient, topic: str) -> None:
    with RawClient(own) as client:
        client.create_topic(topic)
        batch = make_batch([b"a"], producer_id=71, producer_epoch=0, base_sequence=0)
        assert client.produce(topic, batch).error_code == ErrorCode.NONE

        def producers() -> list[int]:
            partitions = DescribeProducersRequest.TopicRequest(topic, [0])
            answer = client.call(DescribeProducersRequest([partitions]), 0, DescribeProducersResponse)
            return [each.producer_id for each in answer.topics[0].partitions[0].active_producers]

        assert producers() == [71]
        settings.set("0", producer_id_expiration_ms="1")
        eventually(lambda: not producers())


LOGGERS = [
    (
        ("root", SET, "LOUD"),
        ErrorCode.INVALID_CONFIG,
        (
            "Cannot set the log level of root to LOUD as it is not a supported log level. "
            "Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN"
        ),
    ),
    (("root", DELETE, None), ErrorCode.INVALID_REQUEST, "Removing the log level of the root logger is not allowed"),
    (("no.such.logger", SET, "DEBUG"), ErrorCode.INVALID_CONFIG, "Logger no.such.logger does not exist!"),
    (("no.such.logger", DELETE, None), ErrorCode.INVALID_CONFIG, "Logger no.such.logger does not exist!"),
    (
        ("root", APPEND, "INFO"),
        ErrorCode.INVALID_REQUEST,
        "APPEND operation is not allowed for the BROKER_LOGGER resource",
    ),
    (
        ("root", SUBTRACT, "INFO"),
        ErrorCode.INVALID_REQUEST,
        "SUBTRACT operation is not allowed for the BROKER_LOGGER resource",
    ),
]


@pytest.mark.parametrize(("change", "code", "message"), LOGGERS)
def test_levels_that_loggers_cannot_have(
    asking: SettingsClient, change: tuple[str, int, str | None], code: ErrorCode, message: str
) -> None:
    assert asking.change(BROKER_LOGGER, "0", change) == (code, message)


def test_levels_of_loggers(asking: SettingsClient) -> None:
    before = asking.describe(BROKER_LOGGER, "0")
    logger = next(name for name in sorted(before) if name != "root")
    assert before["root"] == Shown(before["root"].value, DYNAMIC_LOGGER, False, False, [])
    assert asking.change(BROKER_LOGGER, "0", (logger, SET, "FATAL"), ("root", SET, "no level"))[0] != ErrorCode.NONE
    assert asking.change(BROKER_LOGGER, "0", (logger, SET, "FATAL"), validate_only=True) == OK
    assert asking.describe(BROKER_LOGGER, "0", [logger])[logger].value == before[logger].value
    assert asking.change(BROKER_LOGGER, "0", (logger, SET, "FATAL")) == OK
    assert asking.describe(BROKER_LOGGER, "0", [logger])[logger].value == "FATAL"
    assert asking.change(BROKER_LOGGER, "0", (logger, DELETE, None)) == OK
    assert asking.describe(BROKER_LOGGER, "0", [logger])[logger].value == before["root"].value


def test_resources_without_settings(asking: SettingsClient) -> None:
    refused = ErrorCode.INVALID_REQUEST
    assert asking.description_error(BROKER_LOGGER, "") == (refused, "Broker id must not be empty")
    unexpected = "Unexpected broker id, expected 0 but received 7"
    assert asking.description_error(BROKER_LOGGER, "7") == (refused, unexpected)
    no_name = "Client metrics subscription name must not be empty"
    assert asking.description_error(CLIENT_METRICS, "") == (refused, no_name)
    kraft_only = "Config type client-metrics is only supported on KRaft clusters"
    assert asking.description_error(CLIENT_METRICS, "x") == (refused, kraft_only)
    assert asking.change(GROUP, "g", ("consumer.session.timeout.ms", SET, "1")) == (
        refused,
        "Unknown resource type 32",
    )


@ours_only
def test_threads_change_while_the_broker_runs(own: Server, settings: SettingsClient) -> None:
    settings.set("0", num_io_threads="16", background_threads="5", log_cleaner_threads="2")
    settings.set("0", num_io_threads="8")
    eventually(lambda: "Resized request handler thread pool from 16 to 8" in own.log_text())
    log = own.log_text()
    assert "Resized request handler thread pool from 8 to 16" in log
    assert "Resizing the scheduler's threads from 10 to 5" in log
    with RawClient(own) as client:
        assert client.supported_versions()


@pytest.mark.parametrize("own_server", MODES, indirect=True)
def test_settings_survive_a_restart(own_server: Server, topic: str) -> None:
    """Also those that could not have been reached in one step from what the file says."""
    with own_server.running():
        settings = SettingsClient(own_server)
        settings.set(ALL_BROKERS, num_io_threads="16", message_max_bytes="1000")
        settings.set("0", num_io_threads="32")
        with RawClient(own_server) as client:
            client.create_topic(topic)
    with own_server.running():
        assert settings.describe(BROKER, "0")["num.io.threads"][:2] == ("32", DYNAMIC_BROKER)
        with RawClient(own_server) as client:
            client.wait_for_leaders(topic, 1)
            assert client.produce(topic, make_batch([b"x" * 2000])).error_code == ErrorCode.MESSAGE_TOO_LARGE


@ours_only
@pytest.mark.parametrize("own_server", MODES[:1], indirect=True)
def test_what_nothing_acts_on_is_named_at_start(own_server: Server) -> None:
    own_server._properties |= {
        "remote.log.reader.threads": "5",
        "unclean.leader.election.interval.ms": "7000",
        "num.io.threads": "4",
    }
    with own_server.running():
        pass
    named = [line for line in own_server.log_text().splitlines() if "nothing acts on them" in line]
    assert len(named) == 1
    assert "WARNING" in named[0]
    assert "remote.log.reader.threads (there is no tiered storage); unclean.leader.election.interval.ms (" in named[0]
