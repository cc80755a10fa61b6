"""Changed settings reach who keeps them: once, in order, also after failures, and notices don't pile up."""

from __future__ import annotations

import pytest

from barnabas.broker.settings.topic_log_configs import on_unclean_election_allowed
from barnabas.metadata.change_notice_listener import NOTICE_LIFETIME_MS
from barnabas.metadata.stored_configs import ConfigChangeListener, ConfigRepository
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.uuid import random_uuid
from barnabas.zk.kafka_zk_client import KafkaZkClient
from barnabas.zk.znodes.config_znodes import ConfigEntityType
from tests.support.inline_store import InlineStore
from tests.support.mock_clock import MockClock
from tests.support.mock_scheduler import MockScheduler


class Fixture:
    def __init__(self) -> None:
        self.clock = MockClock()
        self.store = InlineStore(self.clock)
        self.scheduler = MockScheduler(self.clock)
        self.zk = KafkaZkClient(self.store.new_session(), self.clock)
        self.zk.make_sure_persistent_paths_exist()
        self.repository = ConfigRepository(self.zk)
        self.heard: list[tuple[str, dict[str, str]]] = []
        self.listener = self.new_listener()

    def new_listener(self) -> ConfigChangeListener:
        listener = ConfigChangeListener(self.zk, self.scheduler, self.clock)
        listener.register(ConfigEntityType.TOPIC, lambda entity, settings: self.heard.append((entity, settings)))
        return listener

    def settle(self) -> list[tuple[str, dict[str, str]]]:
        while self.store.deliver() + self.scheduler.tick():
            pass
        heard, self.heard = self.heard, []
        return heard


@pytest.fixture
def fixture() -> Fixture:
    made = Fixture()
    made.zk.topics.create("orders", random_uuid(), {0: [0]}, {"retention.ms": "1"})
    return made


def test_changes_are_heard_in_order(fixture: Fixture) -> None:
    fixture.listener.start()
    assert fixture.settle() == []
    fixture.repository.change_topic_config("orders", {"retention.ms": "2"})
    assert fixture.settle() == [("orders", {"retention.ms": "2"})]
    fixture.repository.change_topic_config("orders", {"retention.ms": "3"})
    fixture.zk.configs.change(ConfigEntityType.USER, "alice", {"producer_byte_rate": "1"})  # nobody's business here
    fixture.zk.configs.change(ConfigEntityType.TOPIC, "other", {})
    assert fixture.settle() == [("orders", {"retention.ms": "3"}), ("other", {})]
    assert fixture.repository.topic_overrides("orders") == {"retention.ms": "3"}
    fixture.listener.stop()
    fixture.repository.change_topic_config("orders", {})
    assert fixture.settle() == []


def test_the_start_tells_what_is_there_and_skips_old_notices(fixture: Fixture) -> None:
    fixture.zk.configs.change(ConfigEntityType.TOPIC, "orders", {"retention.ms": "2"})
    fixture.listener.start(initial_types=[ConfigEntityType.TOPIC])
    assert fixture.settle() == [("orders", {"retention.ms": "2"})]
    fixture.new_listener().start()
    assert fixture.settle() == []


def test_one_that_fails_and_a_notice_of_nonsense_stop_nobody(
    fixture: Fixture, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(entity: str, settings: dict[str, str]) -> None:
        raise ValueError("on purpose")

    listener = ConfigChangeListener(fixture.zk, fixture.scheduler, fixture.clock)
    listener.register(ConfigEntityType.TOPIC, fails)
    listener.register(ConfigEntityType.TOPIC, lambda entity, settings: fixture.heard.append((entity, settings)))
    listener.start()
    fixture.zk.access.store.create("/config/changes/config_change_", b"nonsense", sequential=True)
    fixture.repository.change_topic_config("orders", {})
    assert fixture.settle() == [("orders", {})]
    assert "on purpose" in caplog.text
    assert "Ignoring the notice config_change_0000000000" in caplog.text


def test_old_notices_are_removed(fixture: Fixture) -> None:
    fixture.listener.start()
    fixture.repository.change_topic_config("orders", {"a": "1"})
    fixture.settle()
    fixture.clock.advance(NOTICE_LIFETIME_MS + 1)
    fixture.repository.change_topic_config("orders", {"a": "2"})
    assert fixture.settle() == [("orders", {"a": "2"})]
    assert fixture.zk.configs.notices.names() == ["config_change_0000000001"]


def test_repository(fixture: Fixture) -> None:
    assert fixture.repository.all_topic_overrides() == {"orders": {"retention.ms": "1"}}
    assert fixture.repository.topic_overrides("nothing") == fixture.repository.broker_overrides("0") == {}
    with pytest.raises(ApiError) as raised:
        fixture.repository.change_topic_config("nothing", {})
    assert raised.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_who_registers_late_hears_of_later_changes(fixture: Fixture) -> None:
    fixture.listener.start()
    late: list[str] = []
    fixture.repository.change_topic_config("orders", {"retention.ms": "2"})
    fixture.settle()
    fixture.listener.register(ConfigEntityType.TOPIC, lambda entity, settings: late.append(settings["retention.ms"]))
    fixture.repository.change_topic_config("orders", {"retention.ms": "3"})
    fixture.settle()
    assert late == ["3"]


def test_only_an_unclean_election_that_is_allowed_now_is_told_of() -> None:
    allowed: list[str] = []
    changed = on_unclean_election_allowed(allowed.append)
    changed("no", {"unclean.leader.election.enable": "false"})
    changed("unset", {"retention.ms": "5"})
    changed("yes", {"unclean.leader.election.enable": " TRUE "})
    assert allowed == ["yes"]


def test_a_reading_that_was_due_at_the_stop_does_not_touch_the_store(fixture: Fixture) -> None:
    fixture.listener.start()
    fixture.repository.change_topic_config("orders", {"retention.ms": "2"})
    fixture.store.deliver()
    fixture.listener.stop()
    fixture.zk.access.store.close()
    assert fixture.scheduler.tick() == 1
    assert fixture.heard == []
