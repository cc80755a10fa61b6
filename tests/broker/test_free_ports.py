"""The ports that tests give to servers: none that an outgoing connection could take while its server restarts."""

from __future__ import annotations

import pytest

from barnabas.testing.server_ports import NoFreePort, PortChoice, ephemeral_ports, free_port, with_free_ports


def test_ports_are_distinct_and_not_ephemeral() -> None:
    ports = [free_port() for _ in range(20)]
    assert len(set(ports)) == 20
    assert not set(ports) & set(ephemeral_ports())


def test_processes_side_by_side_have_blocks_of_their_own() -> None:
    blocks = [PortChoice(process_id, range(32_768, 61_000)).block for process_id in range(4_000, 4_100)]
    assert all(block.start >= 16_384 and block.stop <= 32_768 for block in blocks)
    assert len({port for block in blocks for port in block}) == sum(len(block) for block in blocks)


def test_ports_above_an_ephemeral_range_that_begins_early() -> None:
    block = PortChoice(7, range(1_024, 50_000)).block
    assert block.start >= 50_000
    assert block.stop <= 65_536
    with pytest.raises(NoFreePort, match="leave no others"):
        PortChoice(7, range(1_024, 65_536))


def test_ports_in_use_are_passed_over_and_come_again_at_the_end_of_the_block() -> None:
    choice = PortChoice(0, range(32_768, 61_000))
    first = choice.block.start
    in_use = {first, first + 1, first + 3}
    assert [choice.next(lambda port: port not in in_use) for _ in range(2)] == [first + 2, first + 4]
    again = [choice.next(lambda port: port not in in_use) for _ in range(len(choice.block))]
    assert first + 2 in again
    with pytest.raises(NoFreePort, match="none of the ports"):
        choice.next(lambda _: False)


def test_listeners_get_ports_only_where_they_leave_them_open() -> None:
    given = "PLAINTEXT://127.0.0.1:9092,SSL://localhost:0,OTHER://[::1]:0"
    first, second, third = with_free_ports(given).split(",")
    assert first == "PLAINTEXT://127.0.0.1:9092"
    assert second.startswith("SSL://localhost:")
    assert third.startswith("OTHER://[::1]:")
    ports = {int(each.rpartition(":")[2]) for each in (second, third)}
    assert len(ports) == 2
    assert not ports & {0, *ephemeral_ports()}
