"""`barnabas serve`: runs a broker in this process until it is stopped, or several in processes of their own.

Owns the parts that belong to the process and not to the broker: signals, log lines on stderr, the ready line on stdout,
the exit status. Runs on the main thread, which waits on a pipe. Signal handlers and watching threads write to the pipe.
"""

from __future__ import annotations

import logging
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NoReturn

import click

from barnabas.cli.stop_signals import on_first
from barnabas.config.broker_config_keys import find_key
from barnabas.config.config_error import ConfigError
from barnabas.config.config_key import parse_host_and_port
from barnabas.config.kafka_config import KafkaConfig, is_known, unknown_setting_message
from barnabas.config.server_defaults import server_defaults
from barnabas.config.setting import Settings, setting
from barnabas.runtime.log_queue import LINE_FORMAT, LogQueue
from barnabas.runtime.logger_levels import TRACE

if TYPE_CHECKING:
    from barnabas.broker.broker_server import BrokerServer
    from barnabas.console.console_server import ConsoleServer
    from barnabas.faults.fault_layer import FaultLayer

DEFAULT_DATA_DIR = "barnabas-data"
_LOG_LEVELS: Final = {
    "trace": TRACE,
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
EXIT_FAILED = 1
EXIT_WRONG_SETTINGS = 2
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

_BROKER_ENDED = b"\xff"
_STDIN_CLOSED = b"\xfe"
_REASONS = {_BROKER_ENDED: "the broker ended", _STDIN_CLOSED: "stdin was closed"}

logger = logging.getLogger(__name__)


class ConsoleConfig(Settings):
    """The address at which metrics are served, as host:port. None: they are not served."""

    address: str | None = setting("metrics.listen")


@click.command()
@click.option(
    "--config",
    "config_file",
    type=click.Path(dir_okay=False),
    help="A file in the format of Kafka's server.properties.",
)
@click.option(
    "--override", "overrides", multiple=True, metavar="NAME=VALUE", help="A setting (repeatable); wins over the file."
)
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False),
    help=f"The directory of all data, made if it is missing. [default: ./{DEFAULT_DATA_DIR}]",
)
@click.option(
    "--listen",
    multiple=True,
    metavar="NAME://HOST:PORT",
    help="Where to listen (repeatable): no host means all interfaces, port 0 any free port. [default:"
    " PLAINTEXT://:9092]",
)
@click.option(
    "--log-level",
    type=click.Choice([*_LOG_LEVELS], case_sensitive=False),
    default="info",
    show_default=True,
    help="The least severe messages that are logged on stderr.",
)
@click.option(
    "--processes",
    type=click.IntRange(min=1),
    metavar="N",
    help="Run N brokers on this machine as one cluster, to use more than one core: ports in a row, no ZooKeeper.",
)
@click.option("--until-stdin-closes", is_flag=True, hidden=True)
@click.option("--one-of-processes", is_flag=True, hidden=True)
@click.option("--fault-pipes", hidden=True, metavar="DESCRIPTOR:DESCRIPTOR")
def serve(
    config_file: str | None,
    overrides: tuple[str, ...],
    data_dir: str | None,
    listen: tuple[str, ...],
    log_level: str,
    processes: int | None,
    until_stdin_closes: bool,
    one_of_processes: bool,
    fault_pipes: str | None,
) -> None:
    """Run a broker until SIGTERM or ctrl-C.

    Prints one line on stdout once it is ready, with the addresses it listens on; its log goes to stderr. A signal
    stops it cleanly (exit status 0); a second one ends it at once.

    Settings are Kafka's, in Java's .properties format. An unknown one is an error in an option and a warning in a file;
    the nearest right name is shown. Options win over --override, which wins over the file: --listen sets listeners,
    --data-dir sets log.dirs. Without --config, the settings are those of the server.properties that Kafka ships.

    A file with zookeeper.connect joins the cluster of that ZooKeeper. With --override metadata.store=embedded the
    broker stands alone instead, and keeps the metadata in its data directory; a file for KRaft needs that switch.
    Settings that promise protection which this version does not have (Kerberos, for example) stop the start.

    With --processes N the brokers 0 to N-1 listen on the given ports and those that follow, keep their data in
    broker-0, broker-1, ... of the data directory, and are one cluster: clients need the first address only. The topics
    with N partitions or more use all of them. A broker that dies is started again. Needs the extra zookeeper.

    \b
        barnabas serve
        barnabas serve --data-dir /var/lib/barnabas --listen PLAINTEXT://0.0.0.0:9092
        barnabas serve --data-dir /var/lib/barnabas --processes 8
        barnabas serve --config server.properties --override metadata.store=embedded --override num.partitions=3
    """
    try:
        config = read_config(config_file, overrides, data_dir, listen)
        _check_count(config, processes, overrides if config_file is None else None)
    except ConfigError as error:
        click.echo(f"barnabas: {error}", err=True)
        sys.exit(EXIT_WRONG_SETTINGS)
    except OSError as error:
        click.echo(f"barnabas: cannot read {config_file}: {error.strerror}", err=True)
        sys.exit(EXIT_WRONG_SETTINGS)
    # The parent of several brokers has said it once for all of them.
    for name in _secrets_in(overrides) if not one_of_processes else ():
        click.echo(
            f"barnabas: warning: the value of --override {name} shows in the list of processes; put it into the file",
            err=True,
        )
    if processes is None:
        from barnabas.broker.process_tuning import pause_collection, tune_memory_allocation

        # Before the first thread: glibc gives a heap of its own to each thread that allocates before the call.
        tune_memory_allocation()
        pause_collection()
    faults = None if fault_pipes is None else _open_faults(fault_pipes)
    log = _start_log(log_level, f"broker {config.text('broker.id')} " if one_of_processes else "")
    if processes is not None:
        words = [] if config_file is None else ["--config", config_file]
        words += ["--log-level", log_level, *(word for override in overrides for word in ("--override", override))]
        _leave(_run_processes(config, processes, words, until_stdin_closes=until_stdin_closes), log)
    stop = _StopRequest()
    if until_stdin_closes:
        stop.when_stdin_closes()
    _leave(_run(config, stop, faults), log)


def _check_count(config: KafkaConfig, processes: int | None, only: tuple[str, ...] | None) -> None:
    """Check that the settings and the directories are those of so many brokers. processes: None for a single one.

    only: the overrides where all that the user has set is there; None where there is a file too. Raises ConfigError.
    """
    if processes is not None:
        from barnabas.cli.processes.row_run import check_processes

        chosen = config.originals if only is None else dict(map(_parsed_override, only))
        check_processes(config, chosen.keys(), processes)
        return
    for directory in config.log_dirs:
        mark = os.path.join(directory, "broker-0", "meta.properties")
        if os.path.exists(mark):
            # A single broker would take `broker-0` for partition 0 of a topic `broker`.
            raise ConfigError(
                f"log.dirs={directory}: this directory has the data of brokers that ran as one cluster ({mark}). Start "
                "them with --processes, or name another directory",
                "log.dirs",
            )


def _start_log(level: str, who: str) -> LogQueue:
    """Start to log on stderr. who: put in front of each thread's name."""
    # The log has a stream of its own over the same descriptor, because its writer holds the stream's lock while it
    # waits for a full pipe.
    stream = open(sys.stderr.fileno(), "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    log = LogQueue(stream)
    log.setFormatter(logging.Formatter(LINE_FORMAT.replace("[", f"[{who}", 1)))
    log.start()
    logging.basicConfig(level=_LOG_LEVELS[level.lower()], handlers=[log])
    return log


def read_config(
    config_file: str | None, overrides: tuple[str, ...], data_dir: str | None, listen: tuple[str, ...]
) -> KafkaConfig:
    """Read the file's settings, or else Kafka's shipped ones, with the options on top.

    An unknown name in the file is kept and warned of at start: the file may be shared with other programs and releases.
    An unknown name in an option was just typed, and is an error.

    Raises ConfigError for a setting that cannot be used, OSError for a file that cannot be read.
    """
    given = dict(_parsed_override(override) for override in overrides)
    if config_file is None:
        properties, source = server_defaults(given), "the command line"
    else:
        from barnabas.config.properties_file import load_properties

        properties, source = load_properties(config_file), config_file
    tolerated = properties.keys() - given.keys()
    if "node.id" in given or "broker.id" in given:
        # Both name the same number, so an option with one of them replaces both names of the file.
        properties.pop("node.id", None)
        properties.pop("broker.id", None)
    properties.update(given)
    if listen:
        properties["listeners"] = ",".join(listen)
    if data_dir is not None:
        # An empty text, such as an unset variable of a script, would otherwise mean the working directory.
        if not data_dir:
            raise ConfigError("--data-dir takes the path of a directory, not ''")
        properties["log.dirs"] = os.path.abspath(data_dir)
    elif config_file is None and not properties.keys() & {"log.dir", "log.dirs"}:
        properties["log.dirs"] = os.path.abspath(DEFAULT_DATA_DIR)
    if unknown := next((name for name in given if not is_known(name)), None):
        raise ConfigError(unknown_setting_message(unknown, "the command line"), unknown)
    return KafkaConfig.parse(properties, source, tolerated=tolerated)


def _parsed_override(override: str) -> tuple[str, str]:
    """Split NAME=VALUE. Raises ConfigError for any other form."""
    name, separator, value = override.partition("=")
    if not separator or not name.strip():
        raise ConfigError(f"--override takes NAME=VALUE, not {override!r}")
    return name.strip(), value


def _secrets_in(overrides: tuple[str, ...]) -> list[str]:
    """Return the names of the settings with a secret value, which every user of the machine can read."""
    names = dict.fromkeys(_parsed_override(override)[0] for override in overrides)
    return [name for name in names if (key := find_key(name)) is not None and key.is_sensitive]


def _run_processes(config: KafkaConfig, count: int, words: list[str], *, until_stdin_closes: bool) -> int:
    """Run several brokers until a signal, and stop them. Returns the exit status."""
    from barnabas.cli.processes.row_run import run_processes
    from barnabas.cli.processes.supervisor import Event, Stop

    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    on_first(STOP_SIGNALS, lambda number: events.put(Stop(signal.Signals(number).name)))
    if until_stdin_closes:
        _call_when_stdin_closes(lambda: events.put(Stop(_REASONS[_STDIN_CLOSED])))
    return run_processes(config, count, words, events)


def _open_faults(fault_pipes: str) -> FaultLayer:
    """Open the pipes to the test kit. Ends the process when they are none: a test that asked for faults gets them."""
    from barnabas.faults.control_channel import inherited_pipes
    from barnabas.faults.fault_layer import FaultLayer

    try:
        return FaultLayer(inherited_pipes(fault_pipes))
    except ValueError as error:
        click.echo(f"barnabas: --fault-pipes: {error}", err=True)
        sys.exit(EXIT_WRONG_SETTINGS)


def _run(config: KafkaConfig, stop: _StopRequest, faults: FaultLayer | None) -> int:
    """Start the broker, wait for a signal or its own end, and stop it. Returns the exit status."""
    # Imported only here, so that errors in settings show without a wait for this import.
    from barnabas.broker.broker_server import BrokerServer

    server = BrokerServer(config, faults=faults)
    try:
        console = _new_console(config, server)
    except (ConfigError, OSError) as error:
        logger.error("metrics.listen=%s: %s", ConsoleConfig.from_kafka_config(config).address, error)  # noqa: TRY400
        return EXIT_FAILED
    if console is None:
        return _run_broker(server, config, stop, None)
    # Started before the broker, so that /healthz can say that the broker is starting.
    console.start()
    try:
        return _run_broker(server, config, stop, console.url)
    finally:
        console.stop()


def _new_console(config: KafkaConfig, server: BrokerServer) -> ConsoleServer | None:
    """Return the server of `metrics.listen`, if that is set.

    Raises ConfigError if the extra is not installed, OSError if the address cannot be opened.
    """
    address = ConsoleConfig.from_kafka_config(config).address
    if not address:
        return None
    from barnabas.console.console_server import ConsoleServer

    return ConsoleServer(*parse_host_and_port(address), server.metrics, lambda: server.state)


def _run_broker(server: BrokerServer, config: KafkaConfig, stop: _StopRequest, console_url: str | None) -> int:
    from barnabas.storage.errors import InconsistentMetaProperties, LogDirectoryLocked
    from barnabas.zk.store.errors import StoreUnavailableError
    from barnabas.zk.znodes.znode_json import ZnodeFormatError

    sentences = (
        ConfigError,
        OSError,
        InconsistentMetaProperties,
        LogDirectoryLocked,
        StoreUnavailableError,
        ZnodeFormatError,
    )
    try:
        server.startup()
    except sentences as error:
        logger.error("the broker cannot start: %s", _reason(error))  # noqa: TRY400 the message says it all
        server.shutdown()
        return EXIT_FAILED
    except Exception:
        logger.exception("the broker cannot start")
        server.shutdown()
        return EXIT_FAILED
    _print_ready_line(server, config, console_url)
    stop.watch(server)
    logger.info("stopping: %s", stop.wait())
    server.shutdown()
    return server.exit_status


def _reason(error: Exception) -> str:
    """Return the error as words: of an OSError without its number, which means nothing to most people."""
    if not isinstance(error, OSError) or error.strerror is None:
        return str(error)
    return error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"


def _print_ready_line(server: BrokerServer, config: KafkaConfig, console_url: str | None) -> None:
    addresses = ",".join(end_point.connection_string for end_point in server.bound_endpoints)
    data = ",".join(config.log_dirs)
    console = "" if console_url is None else f" console={console_url}"
    try:
        print(  # noqa: T201 the one line that scripts and the test kit wait for
            f"barnabas ready: {addresses} broker={server.broker_id} cluster={server.cluster_id}{console} data={data}",
            flush=True,
        )
    except OSError as error:
        logger.warning("the ready line could not be written: %s", error)


class _StopRequest:
    """A pipe that signal handlers write to. An Event would be wrong: the interrupted code may hold the Event's lock."""

    def __init__(self) -> None:
        self._read_fd, self._write_fd = os.pipe()
        on_first(STOP_SIGNALS, self._request)

    def watch(self, server: BrokerServer) -> None:
        """Request the stop when the broker ends by itself, for which a thread waits."""

        def wait_for_end() -> None:
            server.await_shutdown()
            os.write(self._write_fd, _BROKER_ENDED)

        threading.Thread(target=wait_for_end, name="await-shutdown", daemon=True).start()

    def when_stdin_closes(self) -> None:
        """Request the stop when the process that started this one has ended: the test kit, even if it was killed."""
        _call_when_stdin_closes(lambda: os.write(self._write_fd, _STDIN_CLOSED))

    def wait(self) -> str:
        """Wait until a stop is requested, and return the reason."""
        reason = os.read(self._read_fd, 1)
        return _REASONS.get(reason) or signal.Signals(reason[0]).name

    def _request(self, number: int) -> None:
        os.write(self._write_fd, bytes([number]))


def _call_when_stdin_closes(then: Callable[[], object]) -> None:
    """Call `then` on a thread of its own when standard input ends."""

    def wait_for_end_of_input() -> None:
        while os.read(0, 4096):
            pass
        then()

    threading.Thread(target=wait_for_end_of_input, name="await-stdin", daemon=True).start()


def _leave(status: int, log: LogQueue) -> NoReturn:
    """End the process, even if threads still run, such as the writer of a full pipe or a thread of a client."""
    log.stop()
    os._exit(status)
