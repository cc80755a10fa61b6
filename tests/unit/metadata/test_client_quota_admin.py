"""Quotas in the store: Kafka's paths, nothing left behind, and whoever starts or listens knows them all."""

from __future__ import annotations

import math
from functools import partial

import pytest

from barnabas.metadata.client_quota_admin import ClientQuotaAdmin, ClientQuotaDescriptions, QuotaChange, QuotaFilter
from barnabas.metadata.client_quota_store import ClientQuotaListener, ClientQuotaStore
from barnabas.metadata.stored_configs import ConfigChangeListener
from barnabas.metrics.rate import SampleWindow
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.quota.client_quota_manager import QuotaWindows
from barnabas.quota.quota_entity import KafkaQuotaEntity
from barnabas.quota.quota_managers import QuotaManagers
from barnabas.zk.kafka_zk_client import KafkaZkClient
from barnabas.zk.znodes.config_znodes import ConfigEntityType
from tests.support.inline_store import InlineStore
from tests.support.mock_clock import MockClock
from tests.support.mock_scheduler import MockScheduler

WINDOWS = QuotaWindows(SampleWindow(11, 1000), SampleWindow(2, 30_000))
D = "<default>"
Entity = dict[str, str | None]


class Cluster:
    """A store, one who changes quotas, and a broker that listens."""

    def __init__(self) -> None:
        self.clock = MockClock()
        self.store = InlineStore(self.clock)
        self.scheduler = MockScheduler(self.clock)
        self.zk = KafkaZkClient(self.store.new_session(), self.clock)
        self.zk.make_sure_persistent_paths_exist()
        self.quota_store = ClientQuotaStore(self.zk)
        self.admin = ClientQuotaAdmin(self.quota_store, lambda name: name != "nowhere")
        self.addresses: list[tuple[str | None, int | None]] = []
        self.quotas = self.start_broker()

    def start_broker(self) -> QuotaManagers:
        quotas = QuotaManagers(WINDOWS, WINDOWS, self.clock)
        changes = ConfigChangeListener(self.zk, self.scheduler, self.clock)
        changes.start()
        listener = ClientQuotaListener(
            self.quota_store,
            quotas,
            lambda address, rate: self.addresses.append((address, rate)),
            lambda name: None if name == "nowhere" else name.replace("localhost", "127.0.0.1"),
        )
        for kind in (ConfigEntityType.USER, ConfigEntityType.CLIENT, ConfigEntityType.IP):
            changes.register(kind, partial(listener.changed, kind))
        listener.load()
        return quotas

    def alter(self, entity: Entity, **quotas: float | None) -> None:
        changes = [QuotaChange(key, value) for key, value in quotas.items()]
        self.admin.alter(entity, changes, validate_only=False)
        while self.store.deliver() + self.scheduler.tick():
            pass

    def limit_of(self, user: str | None, client_id: str | None) -> float | None:
        return self.quotas.produce.limits.of(KafkaQuotaEntity(user, client_id))


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def test_paths_and_settings_are_kafkas(cluster: Cluster) -> None:
    cluster.alter({"user": "a b", "client-id": "c/d"}, producer_byte_rate=5e6, request_percentage=12.5)
    cluster.alter({"client-id": None}, consumer_byte_rate=7)
    entity = cluster.zk.configs.entity
    assert entity(ConfigEntityType.USER, "a%20b/clients/c%2Fd") == {
        "producer_byte_rate": "5000000",
        "request_percentage": "12.5",
    }
    assert entity(ConfigEntityType.CLIENT, D) == {"consumer_byte_rate": "7"}
    assert cluster.limit_of("a%20b", "c%2Fd") == 5e6
    assert cluster.quotas.fetch.limits.of(KafkaQuotaEntity(None, D)) == 7
    # Another broker, or this one after a restart, knows the same.
    cluster.quotas = cluster.start_broker()
    assert cluster.limit_of("a%20b", "c%2Fd") == 5e6


def test_what_is_taken_away_leaves_no_znode(cluster: Cluster) -> None:
    children = cluster.zk.access.children
    cluster.alter({"user": "u"}, producer_byte_rate=1)
    cluster.alter({"user": "u", "client-id": "c"}, producer_byte_rate=2)
    cluster.alter({"user": "u", "client-id": "d"}, producer_byte_rate=3)
    cluster.alter({"user": "u"}, producer_byte_rate=None)
    assert cluster.limit_of("u", None) is None
    assert children("/config/users/u/clients") == ["c", "d"]
    cluster.alter({"user": "u", "client-id": "c"}, producer_byte_rate=None)
    assert children("/config/users/u/clients") == ["d"]
    cluster.alter({"user": "u", "client-id": "d"}, producer_byte_rate=None)
    assert children("/config/users") == []
    assert cluster.limit_of("u", "d") is None
    # A user who has settings of another kind stays.
    cluster.zk.configs.change(ConfigEntityType.USER, "u", {"SCRAM-SHA-256": "salt=.."})
    cluster.alter({"user": "u", "client-id": "c"}, producer_byte_rate=2)
    cluster.alter({"user": "u", "client-id": "c"}, producer_byte_rate=None)
    cluster.alter({"user": "u"}, producer_byte_rate=2)
    cluster.alter({"user": "u"}, producer_byte_rate=None)
    assert cluster.zk.configs.entity(ConfigEntityType.USER, "u") == {"SCRAM-SHA-256": "salt=.."}
    assert ClientQuotaDescriptions(cluster.quota_store).describe([], strict=False) == []


def test_addresses(cluster: Cluster) -> None:
    cluster.alter({"ip": "localhost"}, connection_creation_rate=5)
    cluster.alter({"ip": None}, connection_creation_rate=9)
    cluster.alter({"ip": "::1"}, connection_creation_rate=2)
    cluster.alter({"ip": "localhost"}, connection_creation_rate=None)
    assert cluster.addresses == [("127.0.0.1", 5), (None, 9), ("::1", 2), ("127.0.0.1", None)]
    cluster.addresses.clear()
    cluster.zk.configs.change(ConfigEntityType.IP, "nowhere", {"connection_creation_rate": "1"})
    cluster.start_broker()
    assert cluster.addresses == [("::1", 2), (None, 9)]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e300, 0.5])
def test_what_is_no_whole_number(cluster: Cluster, value: float) -> None:
    with pytest.raises(ApiError) as refused:
        cluster.alter({"user": "u"}, consumer_byte_rate=value)
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    assert cluster.zk.access.children("/config/users") == []


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_no_number(cluster: Cluster, value: float) -> None:
    with pytest.raises(ApiError) as refused:
        cluster.alter({"user": "u"}, request_percentage=value)
    assert refused.value.code is ErrorCode.INVALID_REQUEST


def test_rates_of_connections_are_not_negative(cluster: Cluster) -> None:
    with pytest.raises(ApiError):
        cluster.alter({"ip": "1.1.1.1"}, connection_creation_rate=-1)


@pytest.mark.parametrize(
    ("filters", "strict", "expected"),
    [
        ([], False, {"u", "uc", "uD", "D", "c", "cD", "ip"}),
        ([], True, set()),
        ([QuotaFilter("user", 0, "u")], False, {"u", "uc", "uD"}),
        ([QuotaFilter("user", 0, "u")], True, {"u"}),
        ([QuotaFilter("user", 1)], False, {"D"}),
        ([QuotaFilter("user", 2)], False, {"u", "uc", "uD", "D"}),
        ([QuotaFilter("user", 2)], True, {"u", "D"}),
        ([QuotaFilter("client-id", 2)], False, {"uc", "uD", "c", "cD"}),
        ([QuotaFilter("client-id", 2)], True, {"c", "cD"}),
        ([QuotaFilter("client-id", 1), QuotaFilter("user", 2)], True, {"uD"}),
        ([QuotaFilter("client-id", 0, "c"), QuotaFilter("user", 0, "u")], False, {"uc"}),
        ([QuotaFilter("client-id", 0, "x")], False, set()),
        ([QuotaFilter("ip", 2)], True, {"ip"}),
        ([QuotaFilter("ip", 0, "1.1.1.1")], False, {"ip"}),
        ([QuotaFilter("ip", 1)], False, set()),
    ],
)
def test_filters(cluster: Cluster, filters: list[QuotaFilter], strict: bool, expected: set[str]) -> None:
    entities: dict[str, Entity] = {
        "u": {"user": "u"},
        "uc": {"user": "u", "client-id": "c"},
        "uD": {"user": "u", "client-id": None},
        "D": {"user": None},
        "c": {"client-id": "c"},
        "cD": {"client-id": None},
        "ip": {"ip": "1.1.1.1"},
    }
    for name, entity in entities.items():
        quota = {"connection_creation_rate" if name == "ip" else "producer_byte_rate": 1}
        cluster.alter(entity, **quota)
    found = ClientQuotaDescriptions(cluster.quota_store).describe(filters, strict=strict)
    assert sorted(map(str, (each.entity for each in found))) == sorted(str(entities[name]) for name in expected)
