"""A disk that fills up or turns read-only: the broker says so, acknowledges nothing that it lost, and goes on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from barnabas.clients.admin import (
    Admin,
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ConfigResourceType,
    NewTopic,
)
from barnabas.protocol.errors import ApiError, ErrorCode
from tests.chaos.verification import fetched
from tests.support.barnabas_process import BarnabasProcess
from tests.support.broker_log import wait_for_log_line
from tests.support.raw_client import RawClient, make_batch
from tests.support.server_fixtures import AGAINST_KAFKA, make_server
from tests.support.server_process import ServerFailed
from tests.support.small_disk import SmallDisk
from tests.support.waiting import wait_until

pytestmark = pytest.mark.skipif(AGAINST_KAFKA, reason="looks at our own answer to a full disk, which is kinder")

VALUE_BYTES = 20_000
OFFLINE = {ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.LEADER_NOT_AVAILABLE}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    small = SmallDisk(tmp_path / "disk", 24)
    yield small
    small.unmount()


@pytest.fixture(params=["inline", "queue"])
def server(request: pytest.FixtureRequest, disk: SmallDisk) -> Iterator[BarnabasProcess]:
    made = make_server(request.param, disk.path / "server", log_segment_bytes="200000")
    assert isinstance(made, BarnabasProcess)
    made.start()
    yield made
    made.close()


class Acknowledged:
    """Values by offset, of one partition."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.values: dict[int, bytes] = {}
        self._number = 0

    def produce(self, client: RawClient) -> ErrorCode:
        """One batch; its error."""
        values = [b"%d/%d " % (self._number, index) + bytes(VALUE_BYTES // 4) for index in range(4)]
        self._number += 1
        answer = client.produce(self.topic, make_batch(values), acks=1)
        if answer.error_code == ErrorCode.NONE:
            assert not any(answer.base_offset + index in self.values for index in range(4))
            self.values.update((answer.base_offset + index, value) for index, value in enumerate(values))
        return ErrorCode(answer.error_code)

    def check(self, client: RawClient) -> None:
        """Everything acknowledged is there, and nothing twice."""
        found = fetched(client, self.topic, 0)
        at = {record.offset: record.value for record in found}
        assert at | self.values == at
        assert len({record.value for record in found}) == len(found)


def test_disk_full_and_room_again(server: BarnabasProcess, disk: SmallDisk) -> None:
    records = Acknowledged("filling")
    with RawClient(server) as client:
        client.create_topic("filling")
        assert records.produce(client) is ErrorCode.NONE
        disk.take_room(but_bytes=1_000_000)
        outcomes = [records.produce(client) for _ in range(80)]
        assert ErrorCode.NONE in outcomes
        refused = outcomes[outcomes.index(ErrorCode.KAFKA_STORAGE_ERROR) :]
        assert set(refused) <= {ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE}
        records.check(client)
        wait_for_log_line(server, "No room")
        disk.make_room()
        assert [records.produce(client) for _ in range(20)] == [ErrorCode.NONE] * 20
        records.check(client)
        client.create_topic("made-afterwards")
    server.kill()
    server.start()
    with RawClient(server) as client:
        client.wait_for_leaders("filling", 1)
        client.wait_for_leaders("made-afterwards", 1)
        records.check(client)
        assert records.produce(client) is ErrorCode.NONE
    assert server.stop() == 0


def test_killed_while_the_disk_is_full(server: BarnabasProcess, disk: SmallDisk) -> None:
    records = Acknowledged("filling")
    with RawClient(server) as client:
        client.create_topic("filling")
        disk.take_room(but_bytes=500_000)
        while records.produce(client) is ErrorCode.NONE:
            pass
    server.kill()
    disk.make_room()
    server.start()
    with RawClient(server) as client:
        client.wait_for_leaders("filling", 1)
        records.check(client)
        assert records.produce(client) is ErrorCode.NONE
    assert server.stop() == 0


def test_topic_created_on_a_full_disk_is_refused_and_can_be_created_later(
    server: BarnabasProcess, disk: SmallDisk
) -> None:
    with RawClient(server) as client:
        disk.take_room()
        with pytest.raises(AssertionError, match="error_code"):
            client.create_topic("unlucky")
        assert server.is_alive
        disk.make_room()
        client.create_topic("lucky")
        assert Acknowledged("lucky").produce(client) is ErrorCode.NONE
    assert server.stop() == 0


def test_start_with_a_read_only_directory_beside_a_good_one(disk: SmallDisk, tmp_path: Path) -> None:
    good, bad = tmp_path / "good", disk.path / "logs"
    server = make_server("inline", tmp_path / "server")
    assert isinstance(server, BarnabasProcess)
    server.log_dirs = (good, bad)
    books = [Acknowledged(f"topic-{number}") for number in range(4)]
    server.start()
    try:
        with RawClient(server) as client:
            for book in books:
                client.create_topic(book.topic)
                assert [book.produce(client) for _ in range(5)] == [ErrorCode.NONE] * 5
        on_disk = {path.name.rpartition("-")[0] for path in bad.glob("topic-*")}
        assert on_disk
        assert on_disk < {book.topic for book in books}
        server.kill()
        disk.set_read_only(True)
        server.start()
        with RawClient(server) as client:
            for book in books:
                if book.topic in on_disk:
                    assert book.produce(client) in OFFLINE
                else:
                    client.wait_for_leaders(book.topic, 1)
                    assert book.produce(client) is ErrorCode.NONE
                    book.check(client)
        wait_for_log_line(server, str(bad))
        server.stop()
        disk.set_read_only(False)
        server.start()
        with RawClient(server) as client:
            for book in books:
                client.wait_for_leaders(book.topic, 1)
                book.check(client)
                assert book.produce(client) is ErrorCode.NONE
        assert server.stop() == 0
    finally:
        server.close()


@pytest.fixture
def tight(tmp_path: Path, disk: SmallDisk) -> Iterator[BarnabasProcess]:
    """A broker whose data alone, and not its log, are on the small disk."""
    broker = BarnabasProcess(tmp_path / "tight", {"log.segment.bytes": "200000"})
    broker.data_dir = disk.path / "data"
    broker.start()
    yield broker
    broker.close()


def fill(client: RawClient, records: Acknowledged) -> None:
    """Produce until the disk is full, and then some more."""
    outcomes = [records.produce(client)]
    while ErrorCode.KAFKA_STORAGE_ERROR not in outcomes[-10:-9]:
        outcomes.append(records.produce(client))
    assert set(outcomes) == {ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR}


def test_a_full_disk_is_repaired_through_the_broker(tight: BarnabasProcess, disk: SmallDisk) -> None:
    """Nothing but requests and signals: a topic is deleted, settings change, and stops and starts are in order."""
    kept, dropped = Acknowledged("kept"), Acknowledged("dropped")
    with RawClient(tight) as client, Admin(tight.bootstrap_servers) as admin:
        for book in (kept, dropped):
            admin.create_topics([NewTopic(book.topic, 1, 1, configs={"file.delete.delay.ms": "100"})])
            client.wait_for_leaders(book.topic, 1)
            assert book.produce(client) is ErrorCode.NONE
        disk.take_room(but_bytes=2_000_000)
        fill(client, dropped)
        refused = client.produce(kept.topic, make_batch([b"v"]))
        assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        # Nothing new is made of the room that is kept, and what is there can be changed.
        with pytest.raises(ApiError, match="No room for new logs") as full:
            admin.create_topics([NewTopic("new", 1, 1)])
        assert full.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        for number in range(100):
            change = ConfigChange("retention.ms", ConfigOperation.SET, str(3_600_000 + number))
            admin.incremental_alter_configs(ConfigResource(ConfigResourceType.TOPIC, dropped.topic), [change])
        kept.check(client)
    assert tight.log_text().count("No room while") == 1, "said once, whatever failed after it"
    assert tight.stop() == 0
    tight.start()
    log = tight.log_text()
    assert "Skipping recovery of logs" in log
    assert "Traceback" not in log
    assert "its logs will be recovered" not in log
    with RawClient(tight) as client, Admin(tight.bootstrap_servers) as admin:
        for book in (kept, dropped):
            client.wait_for_leaders(book.topic, 1)
            book.check(client)
        assert kept.produce(client) is ErrorCode.KAFKA_STORAGE_ERROR
        admin.delete_topics([dropped.topic])
        wait_until(lambda: kept.produce(client) is ErrorCode.NONE, seconds=60)
        kept.check(client)
    wait_for_log_line(tight, "records are taken")
    assert tight.stop() == 0


def test_a_disk_without_any_room_says_so_at_a_start(tight: BarnabasProcess, disk: SmallDisk) -> None:
    """Killed when even the reserve was used up: one sentence, and nothing is lost."""
    records = Acknowledged("filling")
    with RawClient(tight) as client:
        client.create_topic("filling")
        disk.take_room(but_bytes=1_000_000)
        fill(client, records)
    tight.kill()
    disk.make_room()
    filler = disk.path / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(bytes(4096)):
            pass
    with suppress(ServerFailed):
        tight.start()
    if tight.is_alive:
        with RawClient(tight) as client:
            records.check(client)
            assert records.produce(client) is ErrorCode.KAFKA_STORAGE_ERROR
        tight.kill()
    else:
        assert "the broker cannot start: " in tight.log_text()
    assert "Traceback" not in tight.log_text()
    filler.unlink()
    tight.start()
    with RawClient(tight) as client:
        client.wait_for_leaders(records.topic, 1)
        records.check(client)
        assert records.produce(client) is ErrorCode.NONE


def test_a_disk_that_gets_full_while_room_is_taken(disk: SmallDisk) -> None:
    """Of the campaigns' own disks: a broker may write while they are filled, and leave less room than was seen."""
    disk.take_room(but_bytes=-4_000)
    with pytest.raises(OSError, match="No space left"):
        (disk.path / "more").write_bytes(bytes(10_000))
    disk.make_room()
    (disk.path / "more").write_bytes(bytes(10_000))
