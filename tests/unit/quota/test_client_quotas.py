"""Whose quota counts, what happens when it changes, and that the table of clients stays within bounds."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.metrics.metrics_registry import MetricsRegistry
from barnabas.metrics.rate import SampleWindow
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.quota.client_quota_manager import (
    INACTIVE_SENSOR_EXPIRATION_MS,
    MAX_WEIGHT,
    SENSOR_WEIGHT,
    ClientQuotaManager,
    QuotaWindows,
)
from barnabas.quota.controller_mutation_quota import UNBOUNDED
from barnabas.quota.quota_entity import DEFAULT_NAME, KafkaQuotaEntity, QuotaType, desanitize, sanitize
from barnabas.quota.quota_limits import UNLIMITED, QuotaLimits
from barnabas.quota.quota_managers import (
    ClientRequestQuotaManager,
    ControllerMutationQuotaManager,
    QuotaManagers,
    register_quota_metrics,
)
from tests.support.mock_clock import MockClock

WINDOWS = QuotaWindows(SampleWindow(11, 1000), SampleWindow(2, 30_000))
D = DEFAULT_NAME


class Quotas:
    """Kafka's ClientQuotaManagerTest in its words."""

    def __init__(self) -> None:
        self.manager = ClientQuotaManager(QuotaType.PRODUCE, WINDOWS)

    def update(self, user: str | None, client_id: str | None, bound: float | None) -> None:
        self.manager.update_quota(KafkaQuotaEntity(user, client_id), bound)

    def check(self, user: str, client_id: str, bound: float, value: float, *, throttled: bool) -> None:
        """Record `value` a second for the whole window."""
        assert self.manager.limits.share_of(user, client_id).bound == bound
        wait_ms = self.manager.record_and_get_throttle_time_ms(user, client_id, value * 11, 1000)
        assert (wait_ms > 0) == throttled


def test_precedence() -> None:
    quotas = Quotas()
    update, check = quotas.update, quotas.check
    for user, client_id, bound in (
        (D, None, 1000),
        (None, D, 2000),
        (D, D, 3000),
        ("userA", None, 4000),
        ("userA", "client1", 5000),
        ("userB", None, 6000),
        ("userB", "client1", 7000),
        ("userB", D, 8000),
        ("userC", None, 10_000),
        (None, "client1", 9000),
    ):
        update(user, client_id, bound)
    check("userA", "client1", 5000, 4500, throttled=False)  # user and client before user
    check("userA", "client2", 4000, 4500, throttled=True)  # user before client and defaults
    check("userA", "client3", 4000, 0, throttled=True)  # shared by the clients of a user
    check("userA", "client1", 5000, 0, throttled=False)  # for this client alone
    check("userB", "client1", 7000, 8000, throttled=True)
    check("userB", "client2", 8000, 7000, throttled=False)  # the default of each client of a user
    check("userB", "client3", 8000, 7000, throttled=False)
    check("userD", "client1", 3000, 3500, throttled=True)
    check("userD", "client2", 3000, 2500, throttled=False)
    check("userE", "client1", 3000, 2500, throttled=False)
    update(D, D, None)
    check("userD", "client1", 1000, 0, throttled=False)  # counted by other names from here on
    check("userE", "client4", 1000, 1500, throttled=True)
    check("userF", "client4", 1000, 800, throttled=False)
    check("userF", "client5", 1000, 800, throttled=True)
    update(D, None, None)
    check("userF", "client4", 2000, 0, throttled=False)  # shared by client id of all users
    check("userF", "client5", 2000, 0, throttled=False)
    check("userF", "client5", 2000, 2500, throttled=True)
    check("userG", "client5", 2000, 0, throttled=True)
    update("userA", None, 8000)
    update("userA", "client1", 10_000)
    check("userA", "client2", 8000, 0, throttled=False)
    check("userA", "client2", 8000, 4500, throttled=True)  # what was used before counts
    check("userA", "client1", 10_000, 0, throttled=False)
    check("userA", "client1", 10_000, 6000, throttled=True)
    update("userA", "client1", None)
    check("userA", "client6", 8000, 0, throttled=True)
    update("userA", "client6", 11_000)
    check("userA", "client6", 11_000, 8500, throttled=False)
    update("userA", D, 12_000)
    update("userA", "client6", None)
    check("userA", "client6", 12_000, 4000, throttled=True)


def test_names_that_look_like_the_default_are_not() -> None:
    limits = QuotaLimits({KafkaQuotaEntity(None, D): 1.0, KafkaQuotaEntity(None, sanitize(D)): 2.0})
    assert limits.share_of("u", D).bound == 2.0
    assert limits.share_of("u", "c").bound == 1.0
    assert QuotaLimits({KafkaQuotaEntity("CN%3Da%20b", None): 3.0}).share_of("CN=a b", "c").bound == 3.0


PARTIAL = {
    "no limits": ({}, ("u", "", UNLIMITED), ("", "c", UNLIMITED)),
    "default client": ({(None, D): 1.0}, ("", "", UNLIMITED), ("", "c", 1.0)),
    "default user": ({(D, None): 1.0}, ("u", "", 1.0), ("", "", UNLIMITED)),
    "default user, default client": ({(D, D): 1.0}, ("u", "", UNLIMITED), ("", "c", UNLIMITED)),
    "both defaults alone": ({(D, None): 1.0, (None, D): 2.0}, ("u", "", 1.0), ("", "", UNLIMITED)),
    "all defaults": ({(D, D): 1.0, (D, None): 2.0, (None, D): 3.0}, ("u", "", 2.0), ("", "c", 3.0)),
    "user, default client": ({("u", D): 1.0, (D, None): 2.0}, ("u", "", 2.0), ("", "", UNLIMITED)),
    "user": ({("u", None): 1.0, ("u", D): 2.0, (None, "c"): 3.0}, ("u", "", 1.0), ("", "c", 3.0)),
    "client": ({(None, "c"): 1.0, (None, D): 2.0}, ("", "", UNLIMITED), ("", "c", 1.0)),
}
"""Limits; the share of user u without a client id; that of a user without a name with client id c.

As Kafka's DefaultQuotaCallback: `quotaMetricTags` chooses the tags, `quotaLimit` takes no default for an empty one.
"""


@pytest.mark.parametrize(("limits", "by_user", "by_client"), PARTIAL.values(), ids=PARTIAL.keys())
def test_an_empty_name_falls_under_no_default(limits: dict[Any, float], by_user: Any, by_client: Any) -> None:
    known = QuotaLimits({KafkaQuotaEntity(*names): bound for names, bound in limits.items()})
    if limits:
        assert known.share_of("u", "") == by_user
        assert known.share_of("", "c") == by_client
    assert known.share_of("", "") == ("", "", UNLIMITED)


def test_who_has_no_limit_is_measured_like_those_that_have() -> None:
    by_user = QuotaLimits({KafkaQuotaEntity("a", None): 1.0})
    assert by_user.share_of("b", "c") == ("b", "", UNLIMITED)
    by_both = QuotaLimits({KafkaQuotaEntity("a", "c"): 1.0})
    assert by_both.share_of("b", "d") == ("b", "d", UNLIMITED)
    mixed = QuotaLimits({KafkaQuotaEntity("a", None): 1.0, KafkaQuotaEntity(None, "c"): 1.0})
    assert mixed.share_of("b", "d") == ("", "d", UNLIMITED)


@pytest.mark.parametrize(
    ("name", "sanitized"),
    [
        ("a-Z_0.9", "a-Z_0.9"),
        ("CN=a, O=b/c", "CN%3Da%2C%20O%3Db%2Fc"),
        ("*~+ü", "%2A%7E%2B%C3%BC"),
        (D, "%3Cdefault%3E"),
    ],
)
def test_sanitized_names(name: str, sanitized: str) -> None:
    assert sanitize(name) == sanitized
    assert desanitize(sanitized) == name


def test_kafkas_quota_violation() -> None:
    """The figures of ClientQuotaManagerTest.testQuotaViolation."""
    quotas = Quotas()
    quotas.update(None, D, 500)
    record = quotas.manager.record_and_get_throttle_time_ms
    now_ms = 1_000_000
    for _ in range(10):
        assert record("ANONYMOUS", "unknown", 400, now_ms) == 0
        now_ms += 1000
    now_ms += 500
    # 600 - 500 of 4,000 and 2,300 within 10.5 seconds: 6300 / 10.5 = 600
    assert record("ANONYMOUS", "unknown", 2300, now_ms) == 2100
    now_ms += 2100
    for _ in range(10):
        record("ANONYMOUS", "unknown", 400, now_ms)
        now_ms += 1000
    assert record("ANONYMOUS", "unknown", 0, now_ms) == 0


def test_a_fetch_that_is_taken_back_leaves_nothing() -> None:
    quotas = Quotas()
    quotas.update(None, "c", 500)
    assert quotas.manager.record_and_get_throttle_time_ms("u", "c", 10_000, 1000) > 0
    quotas.manager.record_no_throttle("u", "c", -10_000, 1000)
    assert quotas.manager.record_and_get_throttle_time_ms("u", "c", 5000, 1000) == 0
    assert quotas.manager.max_value_in_quota_window("u", "c") == 5000


def test_request_time_is_percent_and_nobody_waits_longer_than_a_sample() -> None:
    manager = ClientRequestQuotaManager(WINDOWS)
    manager.update_quota(KafkaQuotaEntity(None, "c"), 1)
    second = 1_000_000_000
    assert manager.record_time_and_get_throttle_time_ms("u", "c", second // 10, 1000) == 0  # 1 % of ten seconds
    assert manager.record_time_and_get_throttle_time_ms("u", "c", second // 500, 1000) == 200
    assert manager.record_time_and_get_throttle_time_ms("u", "c", second, 1000) == 1000
    manager.record_exempt(second // 2, 1000)
    assert manager.exempt_request_time(1000) == pytest.approx(100 / 2 / 30)


def test_idle_sensors_expire_and_too_many_make_room() -> None:
    quotas = Quotas()
    quotas.update(None, D, 500)
    record = quotas.manager.record_and_get_throttle_time_ms
    record("u", "old", 1, 0)
    record("u", "new", 1, 1)
    quotas.manager.expire_sensors(INACTIVE_SENSOR_EXPIRATION_MS + 1)
    assert [sensor.share.client_id for sensor in quotas.manager.sensors()] == ["new"]
    names_only = 32_000
    for number in range(2 * MAX_WEIGHT // (SENSOR_WEIGHT + names_only)):
        record("u", f"{number:0{names_only}}", 501 * 11, 5000 + number)
        assert sum(SENSOR_WEIGHT + len(s.share.client_id) for s in quotas.manager.sensors()) <= MAX_WEIGHT
    assert record("u", f"{number:0{names_only}}", 0, 6000) > 0  # the newest are still known


class Mutations:
    def __init__(self, bound: float) -> None:
        self.clock = MockClock()
        self.manager = ControllerMutationQuotaManager(WINDOWS, self.clock.milliseconds)
        self.manager.update_quota(KafkaQuotaEntity("u", None), bound)


def test_strict_mutation_quota() -> None:
    mutations = Mutations(10)
    assert mutations.manager.quota_for("u", "c", strict=True).throttle_time_ms() == 0
    first = mutations.manager.quota_for("u", "c", strict=True)
    first.record(90)
    first.record(90)  # there were credits left: 110 - 180 = -70
    assert first.throttle_time_ms() == 0
    second = mutations.manager.quota_for("u", "c", strict=True)
    with pytest.raises(ApiError) as refused:
        second.record(1)
    assert refused.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert second.throttle_time_ms() == 7000
    mutations.clock.advance(3000)
    assert second.throttle_time_ms() == 4000  # an answer that waited says what is left
    mutations.clock.advance(4000)
    mutations.manager.quota_for("u", "other", strict=True).record(1)


def test_permissive_mutation_quota() -> None:
    mutations = Mutations(10)
    quota = mutations.manager.quota_for("u", "c", strict=False)
    quota.record(90)
    quota.record(90)
    assert quota.throttle_time_ms() == 7000
    quota.record(10)
    assert quota.throttle_time_ms() == 8000
    assert ControllerMutationQuotaManager(WINDOWS, mutations.clock.milliseconds).quota_for("u", "c", strict=True) is (
        UNBOUNDED
    )


def test_settings_and_metrics() -> None:
    clock = MockClock()
    managers = QuotaManagers(WINDOWS, WINDOWS, clock)
    heard: list[bool] = []
    managers.on_change(lambda: heard.append(True))
    entity = KafkaQuotaEntity("al%20ice", None)
    settings = {"producer_byte_rate": "1000", "consumer_byte_rate": "x", "request_percentage": "1.0E-3"}
    managers.update(entity, settings | {"controller_mutation_rate": "5"})
    assert [manager.limits.of(entity) for manager in managers] == [1000, None, 0.001, 5]
    managers.produce.record_and_get_throttle_time_ms("al ice", "c", 20_000, managers.now_ms())
    managers.produce.throttling_started("al ice", "c", 40, managers.now_ms())
    managers.controller_mutation.quota_for("al ice", "c", strict=True).record(5)
    registry = MetricsRegistry()
    register_quota_metrics(registry, managers)
    values = {sample.name.mbean: sample.value for sample in registry.collect()}
    produce = "kafka.server:type=Produce,user=al%20ice"
    assert values[f"{produce}/byte-rate"] == 2000
    assert values[f"{produce}/throttle-time"] == 40
    assert values["kafka.server:type=Produce/queue-size"] == 1
    assert values["kafka.server:type=ControllerMutation,user=al%20ice/tokens"] == 50
    assert values["kafka.server:type=Request/exempt-request-time"] == 0
    managers.update(entity, {})
    assert not any(manager.is_enabled for manager in managers)
    assert len(heard) == 2


NUMBERS = ("request_percentage", "controller_mutation_rate")


def test_a_stored_limit_that_is_no_number_is_left_out() -> None:
    managers = QuotaManagers(WINDOWS, WINDOWS, MockClock())
    settings = {"producer_byte_rate": "9" * 400, "consumer_byte_rate": "x"}
    managers.update(KafkaQuotaEntity("alice", None), settings | dict.fromkeys(NUMBERS, "NaN"))
    assert not any(manager.is_enabled for manager in managers)
