"""`barnabas serve` as a process: the ready line, signals, exit statuses, and the test kit that is built on it."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from barnabas.testing import BrokerFailed, BrokerProcess, broker
from tests.support.broker_log import wait_for_log_line
from tests.support.raw_client import RawClient
from tests.support.thread_signals import other_threads, signal_thread

PATIENCE_SECONDS = 100


def test_settings_arrive_and_the_data_dir_is_removed() -> None:
    with broker(num_partitions=3, auto_create_topics_enable=True) as running:
        assert running.broker_id == 0
        assert running.bootstrap_servers == f"127.0.0.1:{running.port}"
        assert Path(running.data_dir, "meta.properties").exists()
        with RawClient(running) as client:
            client.metadata("flights", create=True)
            client.wait_for_leaders("flights", partitions=3)
        wait_for_log_line(running, "started broker 0")
    assert not Path(running.data_dir).parent.exists()
    assert not running.is_running


def test_a_listener_on_every_interface_is_reached_by_loopback() -> None:
    with broker(listen="PLAINTEXT://:0") as running:
        assert running.bootstrap_servers == f"127.0.0.1:{running.port}"
        RawClient(running).close()


def test_restart_keeps_data_and_address(tmp_path: Path) -> None:
    with broker(data_dir=str(tmp_path / "data")) as running:
        address, cluster_id, pid = running.bootstrap_servers, running.cluster_id, running.pid
        running.kill()
        assert not running.is_running
        running.restart()
        assert (running.bootstrap_servers, running.cluster_id) == (address, cluster_id)
        assert running.pid != pid
        assert running.terminate() == 0
        running.start()
    assert (tmp_path / "data" / "meta.properties").exists()


def test_a_broker_that_cannot_start_shows_its_log(tmp_path: Path) -> None:
    with (
        broker() as running,
        pytest.raises(BrokerFailed) as caught,
        broker(listen=f"PLAINTEXT://127.0.0.1:{running.port}"),
    ):
        pass
    assert "exit status 1" in str(caught.value)
    assert "Address already in use" in str(caught.value)


def test_wrong_settings_show_in_the_error() -> None:
    with pytest.raises(BrokerFailed, match=r"did you mean num\.partitions\?"), broker(num_partition=3):
        pass


def test_a_second_broker_on_the_same_data_is_refused() -> None:
    with broker() as running:
        second = BrokerProcess(running.data_dir, log_level="error")
        with pytest.raises(BrokerFailed, match="lock"):
            second.start()


@pytest.mark.parametrize(
    ("data_dir", "reason"),
    [
        ("/dev/null", "none of the log directories can be created or validated: /dev/null (Not a directory)"),
        (
            "{tmp}/file/below",
            "none of the log directories can be created or validated: {tmp}/file/below (Not a directory)",
        ),
        ("{tmp}/not-sqlite", "{tmp}/not-sqlite/metadata.sqlite can't be used: file is not a database"),
    ],
)
def test_a_data_dir_that_cannot_be_used_is_one_line(data_dir: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "not-sqlite").mkdir()
    (tmp_path / "not-sqlite" / "metadata.sqlite").write_text("not a database " * 100)
    command = [sys.executable, "-m", "barnabas", "serve", "--listen", "PLAINTEXT://127.0.0.1:0"]
    ended = subprocess.run(
        [*command, "--log-level", "error", "--data-dir", data_dir.format(tmp=tmp_path)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (1, "", 1), ended.stderr
    assert f"the broker cannot start: {reason.format(tmp=tmp_path)}" in ended.stderr


def test_a_broker_that_died_is_reported() -> None:
    def use_it() -> None:
        with broker() as running:
            os.kill(running.pid, signal.SIGKILL)
            os.waitid(os.P_PID, running.pid, os.WEXITED | os.WNOWAIT)

    with pytest.raises(BrokerFailed, match="ended by itself with exit status -9"):
        use_it()


def served(data_dir: Path, stderr: int = subprocess.PIPE, env: dict[str, str] | None = None) -> subprocess.Popen[str]:
    """A broker that the command has started, or starts."""
    command = [
        sys.executable,
        "-m",
        "barnabas",
        "serve",
        "--data-dir",
        str(data_dir),
        "--listen",
        "PLAINTEXT://127.0.0.1:0",
    ]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True, env=env)


@pytest.mark.parametrize(
    ("number", "thread"),
    [
        (signal.SIGTERM, None),
        # The oldest of the other threads, the newest, and one between them: the kernel may choose any for a signal.
        (signal.SIGTERM, 0),
        (signal.SIGINT, -1),
        (signal.SIGHUP, 5),
        *(pytest.param(signal.SIGTERM, number, marks=pytest.mark.slow) for number in range(1, 15)),
    ],
)
def test_signals_stop_it_cleanly(number: signal.Signals, thread: int | None, tmp_path: Path) -> None:
    process = served(tmp_path / "data")
    assert process.stdout is not None
    assert process.stdout.readline().startswith("barnabas ready: PLAINTEXT://127.0.0.1:")
    if thread is None:
        process.send_signal(number)
    else:
        signal_thread(process.pid, other_threads(process.pid)[thread], number)
    try:
        rest, log = process.communicate(timeout=PATIENCE_SECONDS)
    finally:
        process.kill()
    assert process.returncode == 0, log
    assert rest == ""
    assert f"stopping: {number.name}" in log
    assert "Traceback" not in log
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


def test_it_ends_when_its_starter_is_gone(tmp_path: Path) -> None:
    process = BrokerProcess(str(tmp_path / "data")).start()
    popen = process._process
    assert popen is not None
    assert popen.stdin is not None
    popen.stdin.close()
    assert popen.wait(PATIENCE_SECONDS) == 0
    assert "stopping: stdin was closed" in process.log_text()


def test_a_log_that_nobody_reads_does_not_stop_it(tmp_path: Path) -> None:
    """stderr is a full pipe: the start is not held up, nor the stop."""
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    with suppress(BlockingIOError):
        while True:
            os.write(write_end, b"x" * 4096)
    os.set_blocking(write_end, True)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    process = served(tmp_path / "data", stderr=write_end, env=environment)
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("barnabas ready:")
        process.terminate()
        assert process.wait(PATIENCE_SECONDS) == 0
    finally:
        process.kill()
        process.wait()
        os.close(read_end)
        os.close(write_end)


def test_the_fixture(barnabas_broker: BrokerProcess) -> None:
    with RawClient(barnabas_broker) as client:
        client.create_topic("flights")
        assert len(client.metadata("flights").partitions) == 1
