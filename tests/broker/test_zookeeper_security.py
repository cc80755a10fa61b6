"""A ZooKeeper with users, access control lists and TLS: what is kept from whom, and what stops the start."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner

from barnabas.cli.main import barnabas
from barnabas.config.kafka_config import KafkaConfig
from barnabas.runtime.clock import SystemClock
from barnabas.testing import BrokerFailed, BrokerProcess
from barnabas.testing.broker_command import Setting
from barnabas.zk.kafka_zk_client import KafkaZkClient
from barnabas.zk.store.errors import AccessDeniedError, StoreUnavailableError
from barnabas.zk.store.store import Create, GetData, NodeData, WatchEvent, WatchEventType
from barnabas.zk.zookeeper.zookeeper_config import ZookeeperConfig
from barnabas.zk.zookeeper.zookeeper_store import ZookeeperStore
from tests.support.certificates import PASSWORD, CertificateAuthority, Identity
from tests.support.lossy_relay import LossyRelay
from tests.support.raw_client import RawClient
from tests.support.secure_zookeeper import USERS, SecureZooKeeper, login_context

SECONDS = 60
NETTY = "org.apache.zookeeper.ClientCnxnSocketNetty"


class Secured(NamedTuple):
    """A ZooKeeper for all tests of this file, each of which has a chroot of its own."""

    zookeeper: SecureZooKeeper
    authority: CertificateAuthority
    directory: Path

    def trusted(self) -> dict[str, str]:
        """Settings of a client that trusts the server."""
        return {
            "zookeeper.ssl.client.enable": "true",
            "zookeeper.clientCnxnSocket": NETTY,
            "zookeeper.ssl.truststore.location": str(self.authority.write_pem(self.directory / "trusted.pem")),
        }

    def identified(self, identity: Identity) -> dict[str, str]:
        """The same with a certificate of its own."""
        path = identity.write_pkcs12(self.directory / f"{identity.certificate.serial_number}.p12")
        return {
            **self.trusted(),
            "zookeeper.ssl.keystore.location": str(path),
            "zookeeper.ssl.keystore.password": PASSWORD,
            "zookeeper.ssl.protocol": "TLSv1.3",
        }


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("zookeeper")
    authority = CertificateAuthority()
    running = SecureZooKeeper(
        directory, authority.issue("zookeeper", names=("127.0.0.1",)), authority.write_pem(directory / "clients.pem")
    )
    running.start()
    yield Secured(running, authority, directory)
    running.close()


def config_of(address: str, settings: dict[str, str]) -> ZookeeperConfig:
    timeouts = {"zookeeper.session.timeout.ms": "40000", "zookeeper.connection.timeout.ms": str(SECONDS * 1_000)}
    return ZookeeperConfig.from_kafka_config(KafkaConfig.parse({"zookeeper.connect": address, **timeouts, **settings}))


@contextmanager
def session(address: str, settings: dict[str, str]) -> Iterator[ZookeeperStore]:
    store = ZookeeperStore(config_of(address, settings))
    try:
        store.start()
        yield store
    finally:
        store.close()


def login(user: str) -> dict[str, str]:
    return {"zookeeper.sasl.jaas.config": login_context(user)}


def write_as_broker(store: ZookeeperStore) -> None:
    KafkaZkClient(store, SystemClock()).make_sure_persistent_paths_exist()
    for path in ("/config/users/alice", "/config/brokers/0", "/config/topics/t"):
        store.create(path, b"{}")
    store.batch([Create("/delegation_token"), Create("/delegation_token/tokens"), Create("/controller", b"{}", True)])


def denied(call: Callable[..., Any], *arguments: object) -> bool:
    try:
        call(*arguments)
    except AccessDeniedError:
        return True
    return False


SECRETS = ("/config/users", "/config/users/alice", "/config/brokers", "/config/brokers/0", "/delegation_token/tokens")


@pytest.mark.parametrize("stranger", [None, pytest.param("mallory", marks=pytest.mark.java)])
def test_znodes_belong_to_the_brokers_user(secured: Secured, stranger: str | None) -> None:
    address = f"127.0.0.1:{secured.zookeeper.port}/acl-{stranger}"
    other_settings = {} if stranger is None else login(stranger)
    with (
        session(address, {**login("kafka"), "zookeeper.set.acl": "true"}) as broker,
        session(address, other_settings) as other,
        session(address, login("kafka")) as colleague,
    ):
        write_as_broker(broker)
        for path in SECRETS:
            assert denied(other.get, path), path
            assert denied(other.children, path), path
        for path in ("/config/topics/t", "/brokers/ids", "/controller", "/consumers"):
            other.get(path)
            other.children(path)
        for path in (*SECRETS, "/config/topics/t", "/brokers/ids", "/controller"):
            assert denied(other.set, path, b"x"), path
        for path in (*SECRETS, "/config/topics/t", "/brokers/ids"):
            assert denied(other.create, f"{path}/x", b""), path
        assert denied(other.delete, "/config/topics/t")
        assert denied(other.create, "/intruder")
        other.create("/consumers/group-of-an-old-consumer")
        assert colleague.get("/config/users/alice").data == b"{}"
        colleague.set("/config/users/alice", b"x")


@pytest.mark.java
def test_sequence_of_a_secured_multi_and_of_the_chroot(secured: Secured) -> None:
    address = f"127.0.0.1:{secured.zookeeper.port}/secured/below"
    with (
        session(address, {**login("kafka"), "zookeeper.set.acl": "true"}) as broker,
        session(f"127.0.0.1:{secured.zookeeper.port}", {}) as other,
    ):
        broker.multi([Create("/a", b"1"), Create("/a/b", b"2", sequential=True)])
        assert other.get("/secured/below/a").data == b"1"
        for path in ("/secured", "/secured/below", "/secured/below/a", "/secured/below/a/b0000000000"):
            assert denied(other.set, path, b"x"), path


@pytest.mark.java
def test_wrong_password_ends_the_start(secured: Secured) -> None:
    wrong = {"zookeeper.sasl.jaas.config": login_context("kafka", "wrong")}
    with (
        pytest.raises(StoreUnavailableError, match=r"cannot be used: .*the user kafka or the password is wrong$"),
        session(f"127.0.0.1:{secured.zookeeper.port}/x", wrong),
    ):
        pass


@pytest.mark.java
def test_acls_without_a_user_create_nothing(secured: Secured) -> None:
    """A certificate that ZooKeeper did not ask for makes no user: the znode is not created, and not left open."""
    settings = {"zookeeper.connect": f"127.0.0.1:{secured.zookeeper.port}"}
    store = ZookeeperStore(
        ZookeeperConfig(connect=settings["zookeeper.connect"], connection_timeout_ms=SECONDS * 1_000, has_acls=True)
    )
    try:
        store.start()
        with pytest.raises(AccessDeniedError, match="ZooKeeper knows no user of this session"):
            store.create("/nobodys")
        assert store.exists("/nobodys") is None
    finally:
        store.close()


@pytest.mark.java
def test_certificate_is_the_owner(secured: Secured) -> None:
    address = f"127.0.0.1:{secured.zookeeper.secure_port}/x509"
    owner, stranger = secured.authority.issue("broker"), secured.authority.issue("stranger")
    with (
        session(address, {**secured.identified(owner), "zookeeper.set.acl": "true"}) as broker,
        session(address, secured.identified(stranger)) as other,
    ):
        write_as_broker(broker)
        assert other.get("/config/topics/t").data == b"{}"
        assert denied(other.set, "/config/topics/t", b"x")
        assert denied(other.get, "/config/users/alice")


def test_batches_and_large_answers_over_tls(secured: Secured) -> None:
    """Answers that come together in one record of TLS are all read: `select` tells of the first one only."""
    with session(f"127.0.0.1:{secured.zookeeper.secure_port}/batches", secured.trusted()) as store:
        names = [f"/n{number}" for number in range(500)]
        store.batch([Create(name, name.encode()) for name in names])
        store.create("/large", b"x" * 900_000)
        read = store.batch([GetData(name) for name in (*names, "/large", *names)])
        assert [len(each.data) for each in read if isinstance(each, NodeData)].count(900_000) == 1
        assert [each.data.decode() for each in read[:500] if isinstance(each, NodeData)] == names


@pytest.mark.java
def test_session_goes_on_over_a_new_connection_with_login_and_tls(secured: Secured) -> None:
    relay = LossyRelay(0, 0)
    relay.relay_to(secured.zookeeper.secure_port)
    settings = {**secured.trusted(), **login("kafka"), "zookeeper.set.acl": "true"}
    try:
        with (
            session(f"127.0.0.1:{relay.port}/again", settings) as watching,
            session(f"127.0.0.1:{secured.zookeeper.port}/again", login("kafka")) as changing,
        ):
            watching.create("/watched")
            fired: queue.Queue[WatchEvent] = queue.Queue()
            watching.exists("/watched", fired.put)
            before = watching.session_id
            relay.relay_to(0)
            relay.cut()
            changing.set("/watched", b"x")
            relay.relay_to(secured.zookeeper.secure_port)
            assert fired.get(timeout=SECONDS) == WatchEvent(WatchEventType.DATA_CHANGED, "/watched")
            watching.set("/watched", b"with the login of the new connection")
            assert watching.session_id == before
    finally:
        relay.close()


def test_server_of_another_authority_or_name_ends_the_start(secured: Secured, tmp_path: Path) -> None:
    port = secured.zookeeper.secure_port
    wrong = {
        **secured.trusted(),
        "zookeeper.ssl.truststore.location": str(CertificateAuthority("other").write_pem(tmp_path / "other.pem")),
    }
    with (
        pytest.raises(
            StoreUnavailableError,
            match=r"cannot be used: 127.0.0.1:\d+: CERTIFICATE_VERIFY_FAILED: .*truststore",
        ),
        session(f"127.0.0.1:{port}/x", wrong),
    ):
        pass
    with (
        pytest.raises(StoreUnavailableError, match=r"localhost:\d+: CERTIFICATE_VERIFY_FAILED: Hostname mismatch"),
        session(f"localhost:{port}/x", secured.trusted()),
    ):
        pass
    with session(
        f"localhost:{port}/x", {**secured.trusted(), "zookeeper.ssl.endpoint.identification.algorithm": ""}
    ) as store:
        assert store.children("/").names == []
    no_common_suite = {**secured.trusted(), "zookeeper.ssl.cipher.suites": "TLS_RSA_WITH_AES_128_CBC_SHA"}
    # A port without TLS closes the connection, as a ZooKeeper that starts does, so that the broker tries again.
    impatient = {**secured.trusted(), "zookeeper.connection.timeout.ms": "1000"}
    for address, settings, reason in (
        (f"127.0.0.1:{port}/x", no_common_suite, "cannot be used: .*FAILURE"),
        (f"127.0.0.1:{secured.zookeeper.port}/x", impatient, "cannot be (used|reached): .*TLS"),
    ):
        with pytest.raises(StoreUnavailableError, match=reason), session(address, settings):
            pass


@pytest.mark.java
def test_broker_over_tls_with_login_and_acls(secured: Secured, tmp_path: Path) -> None:
    settings: dict[str, Setting] = {
        "zookeeper_connect": f"127.0.0.1:{secured.zookeeper.secure_port}/broker",
        **secured.trusted(),
        **login("kafka"),
        "zookeeper_set_acl": True,
        "offsets_topic_num_partitions": 1,
    }
    broker = BrokerProcess(str(tmp_path / "broker"), settings)
    try:
        for value in (b"before", b"after"):
            broker.start()
            with RawClient(broker) as client:
                if value == b"before":
                    client.create_topic("orders")
                    client.wait_for_leaders("orders", 1)
                client.produce_values("orders", value)
            broker.terminate()
        assert USERS["kafka"] not in broker.log_text()
        without = {name: value for name, value in settings.items() if "sasl" not in name and "acl" not in name}
        intruder = BrokerProcess(str(tmp_path / "intruder"), {**without, "broker_id": 1})
        with pytest.raises(BrokerFailed, match="is denied to this session by its access control list"):
            intruder.start()
    finally:
        broker.kill()


@pytest.mark.java
def test_migration_gives_the_lists_to_what_it_copies(secured: Secured, tmp_path: Path) -> None:
    alone = BrokerProcess(str(tmp_path / "data"), {"broker_id": 0})
    alone.start()
    alone.close()
    secrets = {**secured.trusted(), **login("kafka"), "zookeeper.set.acl": "true"}
    file = tmp_path / "server.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in secrets.items()).replace("\\", "\\\\"))
    address = f"127.0.0.1:{secured.zookeeper.secure_port}/migrated"
    command = ["cluster", "migrate", str(tmp_path / "data"), "--zookeeper", address]
    done = CliRunner().invoke(barnabas, [*command, "--config", str(file)])
    assert done.exit_code == 0, done.output
    with session(address, secured.trusted()) as other:
        assert other.get("/cluster/id").data
        assert denied(other.set, "/cluster/id", b"x")
        assert denied(other.children, "/config/users")
    file.write_text("zookeeper.set.acl=true\n")
    refused = CliRunner().invoke(barnabas, [*command, "--config", str(file)])
    assert refused.exit_code == 1
    assert "needs a user of ZooKeeper" in refused.output
