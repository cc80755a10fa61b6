"""Each public call of our clients while a broker dies: whatever the broker did for it, the call finds the successor.

The tables name every public method; a new one fails until it has its place.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from barnabas.clients import aio
from barnabas.clients.admin import (
    AccessControlEntry,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    Admin,
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ElectionType,
    FeatureUpdate,
    NewPartitions,
    NewTopic,
    OpenTransaction,
    PatternType,
    PreparedTransaction,
    QuotaEntity,
    ResourcePattern,
    ResourceType,
    ScramAlteration,
    ScramMechanism,
)
from barnabas.clients.calls.blocking_client import BlockingClient
from barnabas.clients.consumer import Consumer, ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from barnabas.clients.metadata.cluster_metadata import MetadataConfig
from barnabas.clients.producer import Producer
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.records.record_batch_builder import RecordBatchBuilder
from barnabas.rpc.network_client_config import NetworkClientConfig
from tests.support.mortal_cluster import BOOTSTRAP, BROKERS, EXPIRY_MS, MortalCluster, MortalSelector, Office
from tests.support.scripted_group import ScriptedGroup

PLACE = TopicPartition("t", 0)
BINDING = AclBinding(
    ResourcePattern(ResourceType.TOPIC, "t", PatternType.LITERAL),
    AccessControlEntry("User:a", "*", AclOperation.READ, AclPermissionType.ALLOW),
)
NAMED = BROKERS - 1
"""The broker that calls about one broker name: it is the controller."""

LATE_MS = 5_000
"""The time that a call may take beyond the expiry of the dead broker."""
MOST_REQUESTS = 3 * (EXPIRY_MS + LATE_MS) // 100
"""The requests that a call may send: three in each of its pauses."""


class Death(NamedTuple):
    """The broker that dies, and when: before the call, or of the call's first request to it."""

    office: Office
    is_during: bool
    is_one_for_all: bool = False

    def __str__(self) -> str:
        who = f"{self.office.value}{'-for-all' if self.is_one_for_all else ''}"
        return f"{who}-{'during' if self.is_during else 'before'}"


DEATHS = [
    *(Death(office, is_during) for office in Office for is_during in (False, True)),
    Death(Office.LEADER, is_during=False, is_one_for_all=True),
    Death(Office.LEADER, is_during=True, is_one_for_all=True),
]

ADMIN: dict[str, Callable[[Admin], object]] = {
    "abort_transaction": lambda admin: admin.abort_transaction(OpenTransaction(PLACE, 7, 0, 0)),
    "alter_client_quotas": lambda admin: admin.alter_client_quotas({QuotaEntity(user="a"): {"producer_byte_rate": 1}}),
    "alter_group_offsets": lambda admin: admin.alter_group_offsets("g", {PLACE: 1}),
    "alter_partition_reassignments": lambda admin: admin.alter_partition_reassignments({PLACE: [1]}),
    "alter_replica_log_dirs": lambda admin: admin.alter_replica_log_dirs(NAMED, {PLACE: "/d"}),
    "alter_user_scram_credentials": lambda admin: admin.alter_user_scram_credentials(
        [ScramAlteration("a", ScramMechanism.SCRAM_SHA_256, None)]
    ),
    "create_acls": lambda admin: admin.create_acls([BINDING]),
    "create_delegation_token": lambda admin: admin.create_delegation_token(),
    "create_partitions": lambda admin: admin.create_partitions({"t": NewPartitions(3)}),
    "create_topics": lambda admin: admin.create_topics([NewTopic("t")]),
    "delete_acls": lambda admin: admin.delete_acls([AclBindingFilter()]),
    "delete_group_offsets": lambda admin: admin.delete_group_offsets("g", [PLACE]),
    "delete_groups": lambda admin: admin.delete_groups(["g"]),
    "delete_records": lambda admin: admin.delete_records({PLACE: 1}),
    "delete_topics": lambda admin: admin.delete_topics(["t"]),
    "describe_acls": lambda admin: admin.describe_acls(AclBindingFilter()),
    "describe_broker_configs": lambda admin: admin.describe_broker_configs(NAMED),
    "describe_client_quotas": lambda admin: admin.describe_client_quotas(QuotaEntity()),
    "describe_cluster": lambda admin: admin.describe_cluster(),
    "describe_configs": lambda admin: admin.describe_configs(ConfigResource.topic("t")),
    "describe_delegation_tokens": lambda admin: admin.describe_delegation_tokens(),
    "describe_features": lambda admin: admin.describe_features(),
    "describe_groups": lambda admin: admin.describe_groups(["g"]),
    "describe_log_dirs": lambda admin: admin.describe_log_dirs(NAMED),
    "describe_producers": lambda admin: admin.describe_producers([PLACE]),
    "describe_topic_configs": lambda admin: admin.describe_topic_configs("t"),
    "describe_topics": lambda admin: admin.describe_topics(["t"]),
    "describe_transactions": lambda admin: admin.describe_transactions(["x"]),
    "describe_user_scram_credentials": lambda admin: admin.describe_user_scram_credentials(),
    "elect_leaders": lambda admin: admin.elect_leaders(ElectionType.PREFERRED, [PLACE]),
    "end_transaction": lambda admin: admin.end_transaction(PreparedTransaction("x", 7, 0), commit=True),
    "expire_delegation_token": lambda admin: admin.expire_delegation_token(b"h"),
    "fence_producers": lambda admin: admin.fence_producers(["x"]),
    "incremental_alter_configs": lambda admin: admin.incremental_alter_configs(
        ConfigResource.topic("t"), [ConfigChange("retention.ms", ConfigOperation.SET, "1")]
    ),
    "list_config_resources": lambda admin: admin.list_config_resources(),
    "list_group_offsets": lambda admin: admin.list_group_offsets("g"),
    "list_groups": lambda admin: admin.list_groups(),
    "list_offsets": lambda admin: admin.list_offsets({PLACE: -1}),
    "list_partition_reassignments": lambda admin: admin.list_partition_reassignments(),
    "list_topics": lambda admin: admin.list_topics(),
    "list_transactions": lambda admin: admin.list_transactions(),
    "remove_group_members": lambda admin: admin.remove_group_members("g", ["i"]),
    "renew_delegation_token": lambda admin: admin.renew_delegation_token(b"h"),
    "replica_end_offsets": lambda admin: admin.replica_end_offsets(NAMED, [PLACE]),
    "unregister_broker": lambda admin: admin.unregister_broker(9),
    "update_features": lambda admin: admin.update_features({"f": FeatureUpdate(1)}),
    # About a resource that only one broker knows.
    "incremental_alter_configs of a broker": lambda admin: admin.incremental_alter_configs(
        ConfigResource.broker(NAMED), [ConfigChange("log.retention.ms", ConfigOperation.SET, "1")]
    ),
}
OF_ONE_BROKER = {
    "alter_replica_log_dirs",
    "describe_broker_configs",
    "describe_log_dirs",
    "replica_end_offsets",
    "incremental_alter_configs of a broker",
}
"""The calls that no other broker than the named one can answer."""
ADMIN_WITHOUT_REQUESTS = {"close", "metrics"}


def client_of(cluster: MortalCluster) -> BlockingClient:
    return BlockingClient(
        BOOTSTRAP,
        NetworkClientConfig(),
        MetadataConfig(),
        clock=cluster.clock,
        make_selector=lambda clock, *, max_idle_ms: cluster.selector,
        resolve=lambda host, port: (host,),
    )


def let_die(cluster: MortalCluster, death: Death) -> None:
    broker = cluster.holders[death.office]
    if death.is_during:
        cluster.victim = broker
    else:
        cluster.kill(broker)
    cluster.requests.clear()


def check_cost(cluster: MortalCluster, since_ms: int) -> None:
    assert cluster.clock.milliseconds() - since_ms < EXPIRY_MS + LATE_MS
    check_requests(cluster)


def check_requests(cluster: MortalCluster) -> None:
    attempts = sum(len(selector.attempts) for selector in cluster.selectors)
    assert len(cluster.requests) + attempts < MOST_REQUESTS


@pytest.mark.parametrize("death", DEATHS, ids=str)
@pytest.mark.parametrize("call", ADMIN)
def test_an_admin_call_outlives_a_broker(call: str, death: Death) -> None:
    cluster = MortalCluster(is_one_for_all=death.is_one_for_all)
    admin = Admin("", client=client_of(cluster), timeout_ms=60_000)
    if death.office is not Office.BOOTSTRAP:
        ADMIN[call](admin)
    named_dies = cluster.holders[death.office] == NAMED
    let_die(cluster, death)
    since_ms = cluster.clock.milliseconds()
    if call in OF_ONE_BROKER and named_dies:
        with pytest.raises(ApiError, match=f"There is no broker {NAMED}; the brokers of the cluster are 0, 1, 2") as e:
            ADMIN[call](admin)
        assert e.value.code is ErrorCode.BROKER_ID_NOT_REGISTERED
    else:
        ADMIN[call](admin)
    check_cost(cluster, since_ms)


CONSUMER: dict[str, Callable[[Consumer], object]] = {
    "beginning_offsets": lambda consumer: consumer.beginning_offsets([PLACE]),
    "close": lambda consumer: consumer.close(),
    "commit_async": lambda consumer: commit_in_the_background(consumer),  # noqa: PLW0108 - defined below
    "commit_sync": lambda consumer: consumer.commit_sync({PLACE: OffsetAndMetadata(1)}),
    "committed": lambda consumer: consumer.committed([PLACE]),
    "end_offsets": lambda consumer: consumer.end_offsets([PLACE]),
    "offsets_for_times": lambda consumer: consumer.offsets_for_times({PLACE: 1}),
    "partitions_for": lambda consumer: consumer.partitions_for("u"),
    "poll": lambda consumer: read_one(consumer, lambda: consumer.poll(100)),
    "poll_table": lambda consumer: read_one(consumer, lambda: consumer.poll_table(100)),
    "position": lambda consumer: position_anew(consumer),  # noqa: PLW0108 - defined below
    "unsubscribe": lambda consumer: consumer.unsubscribe(),
}
CONSUMER_WITHOUT_REQUESTS = {
    # What these want is done, or asked, by the next poll or position.
    "assign",
    "enforce_rebalance",
    "seek",
    "seek_to_beginning",
    "seek_to_end",
    "subscribe",
    # What the consumer knows already.
    "assignment",
    "consumed_offsets",
    "current_lag",
    "group_metadata",
    "metrics",
    "pause",
    "paused",
    "resume",
    "subscription",
    # Waits for an id for as long as its argument says, and has None without one.
    "client_instance_id",
    "forget_wakeup",
    "wakeup",
}
ASYNC_CONSUMER = {"commit": "commit_sync", "getmany": "poll", "getone": "poll", "start": "subscribe", "stop": "close"}
"""The calls of the consumer for asyncio with other names."""


def read_one(consumer: Consumer, poll: Callable[[], Any]) -> None:
    consumer.seek_to_beginning()
    while not len(poll()):
        assert consumer._client.now_ms() < EXPIRY_MS * 10


def commit_in_the_background(consumer: Consumer) -> None:
    """Commit until one succeeds: a single one is not repeated, whatever becomes of it."""
    outcomes: list[Exception | None] = []
    while None not in outcomes:
        assert consumer._client.now_ms() < EXPIRY_MS * 10
        consumer.commit_async({PLACE: OffsetAndMetadata(1)}, lambda _offsets, error: outcomes.append(error))
        consumer.poll(100)


def position_anew(consumer: Consumer) -> None:
    consumer.seek_to_end([PLACE])
    assert consumer.position(PLACE) == 1


@pytest.mark.parametrize("death", DEATHS, ids=str)
@pytest.mark.parametrize("call", CONSUMER)
def test_a_consumers_call_outlives_a_broker(call: str, death: Death) -> None:
    cluster = MortalCluster(is_one_for_all=death.is_one_for_all)
    cluster.logs["t", 0] = a_batch()
    group = ScriptedGroup({}, cluster=cluster)
    cluster.handlers[ApiKey.FIND_COORDINATOR] = cluster.find_coordinator
    group.group_selector = cluster.new_selector()
    consumer = group.consumer(bootstrap_servers=BOOTSTRAP, metadata_max_age_ms=300_000)
    if death.office is not Office.BOOTSTRAP:
        consumer.subscribe(["t"])
        while consumer.position(PLACE) < 1 if consumer.assignment() else True:
            consumer.poll(100)
    let_die(cluster, death)
    since_ms = cluster.clock.milliseconds()
    if death.office is Office.BOOTSTRAP:
        consumer.assign([PLACE])
    CONSUMER[call](consumer)
    check_cost(cluster, since_ms)


def test_every_call_of_a_consumer_has_its_place() -> None:
    assert public(Consumer) == CONSUMER.keys() | CONSUMER_WITHOUT_REQUESTS
    assert public(aio.Consumer) - public(Consumer) == ASYNC_CONSUMER.keys()


class ThreadsSelector(MortalSelector):
    """For a sending thread: time passes quickly only while a dead broker has not expired, and rests before."""

    def __init__(self, cluster: MortalCluster) -> None:
        super().__init__(cluster.clock, cluster.dead)
        self._cluster = cluster
        self._woken = threading.Event()

    def poll(self, timeout_ms: float) -> None:
        if not self.sent and (not self._cluster.dead or self._cluster.has_expired):
            self._woken.wait(0.002)
        self._woken.clear()
        super().poll(timeout_ms)

    def wakeup(self) -> None:
        self._woken.set()


def begin(producer: Producer) -> None:
    producer.begin_transaction()
    producer.send("t", b"v")


def in_a_transaction(producer: Producer) -> None:
    with producer.transaction():
        producer.send("t", b"v")


WAIT_S = 60
Steps = tuple[Callable[[Producer], object], ...]
PRODUCER: dict[str, Steps] = {
    "close": (lambda producer: producer.send("t", b"v"), lambda producer: producer.close()),
    "flush": (lambda producer: producer.send("t", b"v"), lambda producer: producer.flush()),
    "partition_count": (lambda producer: producer.partition_count("t"),),
    "partitions_for": (lambda producer: producer.partitions_for("t"),),
    "send": (lambda producer: producer.send("t", b"v").result(WAIT_S),),
    "send_batch": (lambda producer: producer.send_batch("t", 0, a_batch()).result(WAIT_S),),
    "send_table": (lambda producer: producer.send_table("t", pa.table({"value": [b"v"]})).result(WAIT_S),),
}
TRANSACTIONS: dict[str, Steps] = {
    "abort_transaction": (begin, lambda producer: producer.abort_transaction()),
    "commit_transaction": (begin, lambda producer: producer.commit_transaction()),
    "init_transactions": (lambda producer: producer.init_transactions(),),
    "prepare_transaction": (begin, lambda producer: producer.prepare_transaction()),
    "send_offsets_to_transaction": (
        begin,
        lambda producer: producer.send_offsets_to_transaction(
            {PLACE: OffsetAndMetadata(1)}, ConsumerGroupMetadata("g")
        ),
        lambda producer: producer.commit_transaction(),
    ),
    "transaction": (in_a_transaction,),
}
PRODUCER_WITHOUT_REQUESTS = {
    "abort",
    "begin_transaction",
    # Waits for an id for as long as its argument says, and has None without one.
    "client_instance_id",
    "metrics",
    "on_cluster_update",
    # The parts that the producer for asyncio uses.
    "defer_wakeups",
    "record_appender",
    "send_conditions",
    "transaction_calls",
}
ASYNC_PRODUCER = {"send_and_wait": "send", "start": "init_transactions", "stop": "close"}


def a_batch() -> bytes:
    builder = RecordBatchBuilder(base_offset=0)
    builder.append(1, None, b"v")
    return builder.build()


@pytest.mark.parametrize("death", DEATHS, ids=str)
@pytest.mark.parametrize("call", [*PRODUCER, *TRANSACTIONS])
def test_a_producers_call_outlives_a_broker(call: str, death: Death) -> None:
    cluster = MortalCluster(is_one_for_all=death.is_one_for_all)
    selector = ThreadsSelector(cluster)
    cluster.add_selector(selector)
    transactional_id = "x" if call in TRANSACTIONS else None
    with Producer(
        BOOTSTRAP,
        clock=cluster.clock,
        make_selector=lambda clock, *, max_idle_ms: selector,
        transactional_id=transactional_id,
    ) as producer:
        if call in TRANSACTIONS and call != "init_transactions":
            producer.init_transactions()
            in_a_transaction(producer)
        elif call in PRODUCER and death.office is not Office.BOOTSTRAP:
            producer.send("t", b"v").result(WAIT_S)
        let_die(cluster, death)
        for step in (PRODUCER | TRANSACTIONS)[call]:
            step(producer)
        check_requests(cluster)


def test_every_call_of_a_producer_has_its_place() -> None:
    assert public(Producer) == PRODUCER.keys() | TRANSACTIONS.keys() | PRODUCER_WITHOUT_REQUESTS
    assert public(aio.Producer) - public(Producer) == ASYNC_PRODUCER.keys()


def public(cls: type) -> set[str]:
    return {name for name, _ in inspect.getmembers(cls, callable) if not name.startswith("_")}


def test_every_admin_call_has_its_place() -> None:
    assert public(Admin) == {name.split()[0] for name in ADMIN} | ADMIN_WITHOUT_REQUESTS
    assert public(aio.Admin) - public(Admin) == {"start", "stop"}
