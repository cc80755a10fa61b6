"""A disk that fills up or turns read-only: the broker says so, acknowledges nothing that it lost, and goes on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.protocol.errors import ErrorCode
from tests.chaos.verification import fetched
from tests.support.barnabas_process import BarnabasProcess
from tests.support.broker_log import wait_for_log_line
from tests.support.raw_client import RawClient, make_batch
from tests.support.server_fixtures import AGAINST_KAFKA, make_server
from tests.support.small_disk import SmallDisk

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


def test_a_disk_that_gets_full_while_room_is_taken(disk: SmallDisk) -> None:
    """Of the campaigns' own disks: a broker may write while they are filled, and leave less room than was seen."""
    disk.take_room(but_bytes=-4_000)
    with pytest.raises(OSError, match="No space left"):
        (disk.path / "more").write_bytes(bytes(10_000))
    disk.make_room()
    (disk.path / "more").write_bytes(bytes(10_000))
