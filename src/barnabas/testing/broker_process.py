"""A real broker in a process of its own, for tests: `with broker(num_partitions=3) as b: ... b.bootstrap_servers`.

Used by users' tests and by the project's own, on the caller's thread. The process listens on a free port that no
outgoing connection takes, keeps its data in a temporary directory, and ends when its parent ends, even if the parent is
killed.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, BinaryIO

from barnabas.config.server_defaults import LONE_BROKER_DEFAULTS
from barnabas.testing.broker_command import BrokerCommand, Setting
from barnabas.testing.broker_security import ANONYMOUS, BrokerSecurity, security_of
from barnabas.testing.server_ports import has_open_ports, with_free_ports

if TYPE_CHECKING:
    from barnabas.security.tls.development_certificates import DevelopmentCertificates
    from barnabas.testing.faults import Faults

PLAINTEXT = "plaintext"
PLAINTEXT_ADDRESS = "PLAINTEXT://127.0.0.1:0"
LOG_LINES_SHOWN = 60
START_TIMEOUT_SECONDS = 60.0
STOP_TIMEOUT_SECONDS = 30.0
START_ATTEMPTS = 5
"""How often a start is tried whose port another program has taken."""

_LOOPBACK = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "[::]": "[::1]"}
"""The addresses to connect to, for listeners on every interface."""

_READY = re.compile(
    r"barnabas ready: (?P<addresses>\S+) broker=(?P<broker>-?\d+) cluster=(?P<cluster>\S+)"
    r"(?: console=(?P<console>\S+))? data=.*"
)


class BrokerFailed(RuntimeError):
    """The broker did not start, or did not stop cleanly. The message ends with its log."""


@contextmanager
def data_dir_problems(data_dir: str) -> Iterator[None]:
    """Name the directory and the file that a place for a broker's data cannot be used for. Raises BrokerFailed."""
    try:
        yield
    except OSError as error:
        where = f"{error.filename}: " if error.filename is not None else ""
        raise BrokerFailed(f"data_dir={data_dir!r} cannot be used: {where}{error.strerror or error}") from error


class _PortTaken(BrokerFailed):
    """The broker could not bind one of its ports, because another program has it."""


class BrokerProcess:
    """One broker: a data dir, settings, and a process that can be stopped, killed and started again.

    Settings are Kafka's names, with underscores for dots where they are keywords: `num_partitions=3`. faults: whether
    the broker can be made to fail on purpose (`faults.add`). Raises ValueError for settings that the parameters decide
    (`listeners`, `log_dirs`), TypeError for None.
    """

    def __init__(
        self,
        data_dir: str,
        settings: Mapping[str, Setting] | None = None,
        *,
        listen: str = PLAINTEXT_ADDRESS,
        log_level: str = "info",
        python: Sequence[str] = (sys.executable,),
        environment: Mapping[str, str] | None = None,
        faults: bool = False,
        security: str | BrokerSecurity = PLAINTEXT,
    ) -> None:
        """security: `plaintext`, or `ssl`, `sasl_plaintext` or `sasl_ssl` for a first listener of that protocol.

        That of a cluster, which its brokers have in common, makes the only listener. Raises ValueError for a kind of
        security that there is not, or that contradicts `listen`.
        """
        shared = security if isinstance(security, BrokerSecurity) else None
        self.security = shared or _own_security(data_dir, str(security))
        """The users, certificates and ready settings for clients; None without `security`."""
        if self.security is not None:
            if listen != PLAINTEXT_ADDRESS:
                raise ValueError(f"`listen` ({listen}) cannot be given together with `security`")
            secured = f"{self.security.protocol}://127.0.0.1:0"
            listen = f"{secured},{listen}" if shared is None else secured
            own = self.security.broker_settings if shared is None else shared.cluster_settings
            settings = {**own, **(settings or {})}
        settings = _with_own_rights(settings or {}, shared)
        self._command = BrokerCommand(
            data_dir=data_dir, settings=dict(settings or {}), listen=listen, log_level=log_level, python=tuple(python)
        )
        self.log_path = data_dir.rstrip(os.sep) + ".log"
        self.addresses: list[str] = []
        self.broker_id = -1
        self.cluster_id = ""
        self.console_url: str | None = None
        """The address of /metrics and /healthz (`http://127.0.0.1:39404`), with the setting `metrics_listen`."""
        self._environment = environment
        self._process: subprocess.Popen[str] | None = None
        self._faults = _new_faults() if faults else None

    @property
    def data_dir(self) -> str:
        """The directory of the broker's data."""
        return self._command.data_dir

    @property
    def settings(self) -> dict[str, Setting]:
        """The settings by name. A change takes effect at the next start."""
        return self._command.settings

    @property
    def faults(self) -> Faults:
        """The faults of this broker. Raises BrokerFailed unless it was made with `faults=True`."""
        if self._faults is None:
            raise BrokerFailed("this broker takes no faults: make it with `broker(faults=True)`")
        return self._faults

    @property
    def certificates(self) -> DevelopmentCertificates | None:
        """The certificates of a broker with TLS, which lie beside its data; else None."""
        return None if self.security is None else self.security.certificates

    @property
    def bootstrap_servers(self) -> str:
        """The host:port of the first listener, for clients; with `security` that of the secured listener.

        Raises BrokerFailed before the first start.
        """
        # The listener of brokers, which is the plaintext one, is bound and named first.
        prefix = "" if self.security is None else f"{self.security.protocol}://"
        addresses = [each for each in self.addresses if each.startswith(prefix)]
        if not addresses:
            raise BrokerFailed("the broker was not started")
        host, _, port = addresses[0].partition("://")[2].rpartition(":")
        return f"{_LOOPBACK.get(host, host)}:{port}"

    @property
    def host(self) -> str:
        """The first listener's host."""
        return self.bootstrap_servers.rpartition(":")[0]

    @property
    def port(self) -> int:
        """The first listener's port."""
        return int(self.bootstrap_servers.rpartition(":")[2])

    @property
    def pid(self) -> int:
        """The process id. Raises BrokerFailed if the broker was not started."""
        return self._running().pid

    @property
    def is_running(self) -> bool:
        """Whether the process runs."""
        process = self._process
        if process is not None and self._was_killed_by_fault:
            # The report of the hit comes a moment before the end of the process.
            process.wait()
        return process is not None and process.poll() is None

    def command(self) -> list[str]:
        """Return the command line of the broker. After the first start, it has the ports of that start."""
        return self._command.words(self.addresses)

    def start(self, timeout_seconds: float = START_TIMEOUT_SECONDS) -> BrokerProcess:
        """Start the process and wait until it is ready. Raises BrokerFailed, with the log, if it does not get ready."""
        if self.is_running:
            raise BrokerFailed(f"the broker is running already (pid {self.pid})")
        if self._process is not None:
            self._forget(self._process)  # it has ended by itself, or by a fault
        # A user's own port is not tried again: that it is taken is the user's to know.
        attempts = START_ATTEMPTS if self.addresses or has_open_ports(self._command.listen) else 1
        for attempt in range(1, attempts + 1):
            addresses = self.addresses or with_free_ports(self._command.listen).split(",")
            try:
                self._start_at(addresses, timeout_seconds)
                break
            except _PortTaken:
                if attempt == attempts:
                    raise
        return self

    def _start_at(self, addresses: Sequence[str], timeout_seconds: float) -> None:
        """Start the process with these listeners and wait until it is ready.

        Raises _PortTaken if another program has one of the ports, BrokerFailed if the process does not get ready.
        """
        with self._open_log() as log, self._fault_pipes() as pipes:
            log_end = log.tell()
            try:
                self._process = subprocess.Popen(  # noqa: S603 our own interpreter and module
                    [*self._command.words(addresses), *_fault_option(pipes)],
                    # The broker ends when its standard input does. The pipe's other end closes with this process,
                    # however it dies.
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                    pass_fds=pipes,
                    env=None if self._environment is None else {**os.environ, **self._environment},
                )
            except OSError as error:
                python = " ".join(self._command.python)
                raise BrokerFailed(f"the interpreter {python!r} cannot be started: {error.strerror}") from error
        # Reading blocks until the ready line or the end of the process; the timer makes sure that one of them comes.
        kill_timer = threading.Timer(timeout_seconds, self._process.kill)
        kill_timer.daemon = True
        kill_timer.start()
        try:
            self._read_ready_line(self._process, timeout_seconds, log_end)
        finally:
            kill_timer.cancel()

    def _open_log(self) -> BinaryIO:
        """Open the log of the process, beside its data. Raises BrokerFailed if that is impossible."""
        with data_dir_problems(self.data_dir):
            os.makedirs(os.path.dirname(self.log_path) or ".", exist_ok=True)
            return open(self.log_path, "ab")

    def terminate(self, timeout_seconds: float = STOP_TIMEOUT_SECONDS) -> int:
        """Stop the broker by SIGTERM. Returns its exit status, 0 after a clean stop. Raises BrokerFailed on timeout."""
        process = self._running()
        process.send_signal(signal.SIGTERM)
        try:
            status = process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise BrokerFailed(self._with_log(f"the broker did not stop within {timeout_seconds} s")) from None
        self._forget(process)
        return status

    def kill(self) -> None:
        """End the process at once by SIGKILL, as a crash would. Harmless if it has ended."""
        process = self._process
        if process is not None:
            process.kill()
            process.wait()
            self._forget(process)

    def restart(self, timeout_seconds: float = START_TIMEOUT_SECONDS) -> BrokerProcess:
        """Stop the broker if it runs, and start it again: same data, same port, same settings."""
        if self.is_running:
            self.terminate()
        return self.start(timeout_seconds)

    def pause(self) -> None:
        """Freeze the process (SIGSTOP), and wait until it is frozen. Its connections stay open and silent."""
        process = self._running()
        process.send_signal(signal.SIGSTOP)
        # The signal only asks: on a busy machine the process goes on for a while, and answers. WNOWAIT leaves the exit
        # status of a process that has ended instead to `process.wait`. Python has no waitid on older macOS.
        if hasattr(os, "waitid"):
            os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        """Let a frozen process go on (SIGCONT)."""
        self._running().send_signal(signal.SIGCONT)

    def log_text(self) -> str:
        """Return the log of all starts."""
        with suppress(FileNotFoundError), open(self.log_path, encoding="utf-8", errors="replace") as file:
            return file.read()
        return ""

    def close(self) -> None:
        """Stop the broker if it runs. Raises BrokerFailed if it does not stop cleanly."""
        if self.is_running:
            status = self.terminate()
            if status != 0 and not self._was_killed_by_fault:
                raise BrokerFailed(self._with_log(f"the broker stopped with exit status {status}"))
        elif self._process is not None:
            status = self._process.wait()
            self._forget(self._process)
            if not self._was_killed_by_fault:
                raise BrokerFailed(self._with_log(f"the broker ended by itself with exit status {status}"))

    @property
    def _was_killed_by_fault(self) -> bool:
        return self._faults is not None and self._faults.has_killed_broker

    def _fault_pipes(self) -> AbstractContextManager[tuple[int, ...]]:
        """Return the descriptors that the process inherits: those for faults, or none."""
        return nullcontext(()) if self._faults is None else self._faults.for_start()

    def _running(self) -> subprocess.Popen[str]:
        """Return the process. Raises BrokerFailed if it does not run."""
        if self._process is None:
            raise BrokerFailed("the broker is not running")
        return self._process

    def _read_ready_line(self, process: subprocess.Popen[str], timeout_seconds: float, log_end: int) -> None:
        """Wait for the ready line and read it. log_end: the length of the log, in bytes, before this start.

        Raises _PortTaken if the line does not come because another program has a port, BrokerFailed for other reasons.
        """
        assert process.stdout is not None
        line = process.stdout.readline()
        ready = _READY.fullmatch(line.strip())
        if ready is None:
            process.kill()
            status = process.wait()
            self._forget(process)
            what = f"it printed {line.strip()!r} instead of the ready line" if line else f"exit status {status}"
            text = self._with_log(f"the broker was not ready after at most {timeout_seconds} s: {what}")
            raise _PortTaken(text) if self._tells_taken_port(log_end) else BrokerFailed(text)
        self.addresses = ready["addresses"].split(",")
        self.broker_id = int(ready["broker"])
        self.cluster_id = ready["cluster"]
        self.console_url = ready["console"]

    def _forget(self, process: subprocess.Popen[str]) -> None:
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()
        self._process = None
        if self._faults is not None:
            self._faults.close_pipe()

    def _tells_taken_port(self, log_end: int) -> bool:
        with open(self.log_path, "rb") as log:
            log.seek(log_end)
            return os.strerror(errno.EADDRINUSE).encode() in log.read()

    def _with_log(self, message: str) -> str:
        lines = self.log_text().splitlines()[-LOG_LINES_SHOWN:]
        command = " ".join(self.command())
        return f"{message}\ncommand: {command}\nlast lines of {self.log_path}:\n" + "\n".join(lines)


@contextmanager
def broker(
    *,
    data_dir: str | None = None,
    listen: str = PLAINTEXT_ADDRESS,
    log_level: str = "info",
    faults: bool = False,
    security: str = PLAINTEXT,
    **settings: Setting,
) -> Iterator[BrokerProcess]:
    """Run a broker: `with broker(num_partitions=3) as b`. It is stopped afterwards, and its data removed.

    `data_dir`: use and keep this directory instead of a temporary one. `faults`: whether `b.faults.add(...)` can make
    it fail on purpose. `security`: `ssl`, `sasl_plaintext` or `sasl_ssl`: clients connect by the settings in
    `b.security` (`keywords` for ours, `java`, `librdkafka`, `kafka_python`). Other keywords are settings. Raises
    BrokerFailed, with the broker's log, if the broker does not start, ends on its own (unless a fault killed it), or
    does not stop cleanly.
    """
    directory = tempfile.mkdtemp(prefix="barnabas-") if data_dir is None else None
    if not settings.keys().isdisjoint(("zookeeper_connect", "zookeeper.connect")):
        # In a cluster it would wait for two more brokers, and this is one.
        settings = {**{name.replace(".", "_"): value for name, value in LONE_BROKER_DEFAULTS.items()}, **settings}
    process = BrokerProcess(
        data_dir if directory is None else os.path.join(directory, "data"),  # type: ignore[arg-type]
        settings,
        listen=listen,
        log_level=log_level,
        faults=faults,
        security=security,
    )
    try:
        process.start()
        try:
            yield process
        except BaseException:
            # A failed stop would raise too, and hide the caller's error.
            process.kill()
            raise
        process.close()
    finally:
        process.kill()
        if directory is not None:
            shutil.rmtree(directory, ignore_errors=True)


def _with_own_rights(settings: Mapping[str, Setting], shared: BrokerSecurity | None) -> dict[str, Setting]:
    """Return settings in which the broker's own principal is a super user, where there is an authorizer.

    Otherwise the broker could not start: its controller reaches it as any client does, by the plaintext listener or, in
    a cluster, by that of `shared`.
    """
    named = {name.replace("_", "."): name for name in settings}

    def of_listener(setting: str, otherwise: str) -> str:
        """Return a setting of the brokers' listener: its own value, or that of all listeners."""
        prefix = "" if shared is None else f"listener.name.{shared.protocol.lower().replace('_', '.')}."
        name = named.get(prefix + setting, named.get(setting))
        return otherwise if name is None else str(settings[name])

    if not settings.get(named.get("authorizer.class.name", "")):
        return dict(settings)
    principal: str | None = ANONYMOUS
    if shared is not None:
        principal = shared.cluster_principal(
            asks_for_certificates=of_listener("ssl.client.auth", "none") != "none",
            mapping_rules=of_listener("ssl.principal.mapping.rules", "DEFAULT"),
        )
    if principal is None:
        return dict(settings)
    name = named.get("super.users", "super.users")
    given = [each.strip() for each in str(settings.get(name, "")).split(";") if each.strip()]
    return {**settings, name: ";".join(given if principal in given else [*given, principal])}


def _own_security(data_dir: str, kind: str) -> BrokerSecurity | None:
    if kind == PLAINTEXT:
        return None
    with data_dir_problems(data_dir):
        return security_of(data_dir, kind)


def _new_faults() -> Faults:
    from barnabas.testing.faults import Faults  # noqa: PLC0415 - most test runs never need it

    return Faults()


def _fault_option(pipes: Sequence[int]) -> list[str]:
    return ["--fault-pipes", ":".join(map(str, pipes))] if pipes else []
