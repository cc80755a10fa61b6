"""The pipes between test kit and broker, both ends in this process."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import pytest

from barnabas.config.config_error import ConfigError
from barnabas.faults.control_channel import ControlChannel, PipeEnds, inherited_pipes
from barnabas.faults.control_messages import Command
from barnabas.faults.fault_plan import Drop, Error, Nth, RequestFacts, fault_plan
from barnabas.faults.fault_table import Counts, FaultTable, InstalledFault
from barnabas.protocol.api_keys import ApiKey
from barnabas.testing.faults import BrokerGone, FaultPipe

PRODUCE = RequestFacts(ApiKey.PRODUCE, None, set)
SERVED = (ApiKey.PRODUCE, ApiKey.FETCH)
OWN_CLIENT_ID = "0"


class Ends:
    """A FaultPipe, and a ControlChannel where a broker would be."""

    def __init__(self) -> None:
        self.reported: dict[int, Counts] = {}
        self.kit = FaultPipe(lambda report: self.reported.update(report.counts))
        self.table = FaultTable()
        # A process that inherits the descriptors has copies of its own.
        commands, reports = (os.dup(descriptor) for descriptor in self.kit.child_descriptors)
        self.reports = reports
        self.broker = ControlChannel(PipeEnds(commands, reports), self.table, SERVED, OWN_CLIENT_ID)
        self.kit.child_has_started()

    def start(self) -> None:
        self.kit.send(Command(1))
        self.broker.execute_first()
        self.broker.start()


@pytest.fixture
def ends() -> Iterator[Ends]:
    both = Ends()
    yield both
    os.close(both.reports)
    both.kit.close()


def installed(fault_id: int, *plan: object, **which: object) -> InstalledFault:
    return InstalledFault(fault_id, fault_plan(*plan, **which))  # type: ignore[arg-type]


def test_the_first_command_is_executed_before_the_threads_run(ends: Ends) -> None:
    ends.kit.send(Command(1, (installed(3, Drop(), api="Produce"),)))
    ends.broker.execute_first()
    assert ends.table.due(PRODUCE) is not None


def test_an_answer_has_all_hits_before_it(ends: Ends) -> None:
    ends.start()
    ends.kit.call(Command(2, (installed(3, Drop(), calls=Nth(2)),)))
    for _ in range(5):
        ends.table.due(PRODUCE)
    ends.kit.call(Command(3))
    assert ends.reported == {3: Counts(5, 1)}
    for _ in range(5):
        ends.table.due(PRODUCE)
    ends.kit.call(Command(4, remove=(3,)))
    assert ends.reported == {3: Counts(10, 1)}
    assert ends.table.due(PRODUCE) is None


def test_what_is_known_is_written_before_the_process_ends(ends: Ends) -> None:
    """Without the threads: what a Kill has to say does not wait for them."""
    ends.kit.send(Command(1, (installed(3, Drop()),)))
    ends.broker.execute_first()
    ends.table.due(PRODUCE)
    ends.broker.report_now()
    os.close(ends.reports)
    ends.reports = os.open(os.devnull, os.O_WRONLY)
    ends.kit.close()
    assert ends.reported == {3: Counts(1, 1)}


def test_an_api_that_the_broker_does_not_serve_is_refused_whole(ends: Ends) -> None:
    ends.start()
    command = Command(2, (installed(3, Drop()), installed(4, Error(1), api="ShareFetch")))
    assert ends.kit.call(command).error == "this broker does not serve SHARE_FETCH"
    assert ends.table.due(PRODUCE) is None


def test_the_client_id_of_the_broker_itself_is_refused(ends: Ends) -> None:
    ends.start()
    assert ends.kit.call(Command(2, (installed(3, Drop(), client_id=OWN_CLIENT_ID),))).error == (
        "no fault hits requests with the client id '0': by this one, the broker speaks to itself"
    )
    assert ends.kit.call(Command(3, (installed(4, Drop(), client_id="00"),))).error is None


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_faults_end_with_the_thread_of_the_commands(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_faults: object) -> None:
        raise ZeroDivisionError

    ends.start()
    ends.kit.call(Command(2, (installed(3, Drop()),)))
    monkeypatch.setattr(ends.table, "install", fail)
    ends.kit.send(Command(3, (installed(4, Drop()),)))
    for thread in threading.enumerate():
        if thread.name == "fault-commands":
            thread.join(10)
    assert ends.table.due(PRODUCE) is None


def test_a_line_that_is_no_command_changes_nothing(ends: Ends) -> None:
    ends.start()
    for line in (b"hello\n", b"[]\n", b"{}\n", b'{"id": 2, "install": [{"fault": 1}], "remove": []}\n', b"\xff\n"):
        os.write(ends.kit._commands, line)
    ends.kit.call(Command(2, (installed(3, Drop()),)))
    due = ends.table.due(PRODUCE)
    assert due is not None
    assert due.fault_id == 3


def test_faults_end_with_the_test_kit(ends: Ends) -> None:
    ends.start()
    ends.kit.call(Command(2, (installed(3, Drop()),)))
    os.close(ends.kit._commands)
    ends.kit._commands = -1
    for thread in threading.enumerate():
        if thread.name == "fault-commands":
            thread.join(10)
    assert ends.table.due(PRODUCE) is None


def test_a_start_without_its_faults_fails(ends: Ends) -> None:
    ends.kit.send(Command(1, (installed(3, Drop(), api="ShareFetch"),)))
    with pytest.raises(
        ConfigError, match="the fault plans cannot be installed: this broker does not serve SHARE_FETCH"
    ):
        ends.broker.execute_first()
    os.close(ends.kit._commands)
    ends.kit._commands = -1
    with pytest.raises(ConfigError, match="the test kit closed the pipe of the fault plans"):
        ends.broker.execute_first()


def test_a_broker_that_is_gone_answers_nothing() -> None:
    kit = FaultPipe(lambda report: None)
    kit.child_has_started()
    with pytest.raises(BrokerGone):
        kit.call(Command(1))
    kit.close()


@pytest.mark.parametrize("text", ["", "5", "5:6:7", "a:b", "-1:5"])
def test_descriptors_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match="two file descriptors are expected"):
        inherited_pipes(text)


def test_descriptors_have_to_be_pipes() -> None:
    reader, writer = os.pipe()
    with open(os.devnull, "rb") as no_pipe:
        with pytest.raises(ValueError, match=f"file descriptor {no_pipe.fileno()} is no pipe"):
            inherited_pipes(f"{reader}:{no_pipe.fileno()}")
        for number in (99999, 10**30):
            with pytest.raises(ValueError, match=f"file descriptor {number} is not open"):
                inherited_pipes(f"{number}:{writer}")
    os.set_inheritable(reader, True)
    assert inherited_pipes(f"{reader}:{writer}") == PipeEnds(reader, writer)
    assert not os.get_inheritable(reader)
    os.close(reader)
    os.close(writer)
