"""The common parts of commands that talk to a broker: its address, `--command-config`, and the form of errors.

Used by these commands, on the main thread. `--command-config FILE` names settings of the clients, such as those of TLS
and SASL. The file is in Kafka's format, so one file serves these commands and Kafka's own tools. Its content waits in
click's context until the command makes its client. No other state.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import click

from barnabas.config.config_error import nearest_hint
from barnabas.config.properties_file import load_properties

if TYPE_CHECKING:
    from barnabas.clients.admin import Admin
    from barnabas.clients.metadata.cluster import PartitionInfo
    from barnabas.clients.producer import Producer
    from barnabas.protocol.topic_partition import TopicPartition

_META = "barnabas.command_config"


def _remember(context: click.Context, _parameter: click.Parameter, path: str | None) -> None:
    if path is not None:
        try:
            context.meta[_META] = load_properties(path)
        except (OSError, ValueError) as error:
            raise click.BadParameter(str(error)) from error


command_config_option = click.option(
    "--command-config",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False),
    expose_value=False,
    callback=_remember,
    envvar="BARNABAS_COMMAND_CONFIG",
    help="A properties file with settings of the client, such as security.protocol. Other options win over it.",
)


def command_settings(config_class: type[Any]) -> dict[str, Any]:
    """Return the settings of the command's file that this kind of client has; none without a file.

    Raises ValueError for a setting that no client has, and for a value of the wrong type.
    """
    context = click.get_current_context(silent=True)
    properties = {} if context is None else context.meta.get(_META, {})
    if not properties:
        return {}
    from barnabas.clients.consumer import ConsumerConfig
    from barnabas.clients.producer import ProducerConfig
    from barnabas.clients.settings.notation import settings_of

    known = {each.kafka_name: each for each in settings_of(config_class)}
    of_others = {each.kafka_name for other in (ProducerConfig, ConsumerConfig) for each in settings_of(other)}
    settings = {}
    for name, text in properties.items():
        if name in known:
            settings[known[name].name] = parsed_value(name, known[name].type, text, "--command-config")
        elif name not in of_others:
            # Never the value: it may be a password under a misspelt name.
            raise ValueError(f"--command-config: clients have no setting {name!r}{nearest_hint(name, known)}")
    return settings


def parsed_value(name: str, kind: str, text: str, option: str) -> object:
    """Return the value of a setting by the annotation of its field. Raises ValueError; `option` is named in it."""
    if "None" in kind and text == "none" and "str" not in kind:
        return None
    if "bool" in kind:
        if text not in {"true", "false"}:
            raise ValueError(f"{option}: {name} takes true or false, not {text!r}")
        return text == "true"
    if "int" in kind:
        try:
            return int(text)
        except ValueError:
            if "Literal" in kind:
                return text
            raise ValueError(f"{option}: {name} takes a whole number, not {text!r}") from None
    if "float" in kind:
        try:
            return float(text)
        except ValueError:
            raise ValueError(f"{option}: {name} takes a number, not {text!r}") from None
    return [each.strip() for each in text.split(",")] if kind.startswith("Sequence") else text


BOOTSTRAP_TIMEOUT_MS = 3_000
"""The time in which a command must reach a first broker, long enough for a broker that is just starting."""

_CREATION_TIMEOUT_MS = 5_000
"""How long a command waits for a topic that brokers do not know, and that one of them may be making."""

_REPEAT_SECONDS = 9.0
"""For how long a line about a broker that cannot be reached is not repeated."""

EXIT_FAILED = 1
EXIT_INTERRUPTED = 130
EXIT_USAGE = 2

_bootstrap_option = click.option(
    "-b",
    "--bootstrap-server",
    "bootstrap_servers",
    metavar="HOST:PORT[,...]",
    default="localhost:9092",
    show_default=True,
    envvar="BARNABAS_BOOTSTRAP_SERVER",
    help="Brokers to connect to.",
)


Option: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]
"""What adds an option, or a stack of them, to a command."""


def option_stack(*options: Option) -> Option:
    """Return what adds these options; `--help` shows them in this order."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        # click applies decorators from the last to the first.
        for option in reversed(options):
            command = option(command)
        return command

    return add


bootstrap_option = option_stack(_bootstrap_option, command_config_option)
"""Adds the options by which a command finds its brokers and connects to them."""


timeout_option = click.option(
    "--timeout",
    "timeout_seconds",
    type=click.FloatRange(min=0.1),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for the broker.",
)


@contextmanager
def friendly_errors(bootstrap_servers: str) -> Iterator[None]:
    """Turn the errors of clients into one line on stderr and an exit status. Other errors are bugs and stay visible."""
    # Commands import the clients only when they run: `barnabas --help` and shell completion stay quick.
    from barnabas.clients.authentication_errors import AuthenticationError
    from barnabas.clients.errors import ClientTimeout, Unreachable, WokenUp
    from barnabas.protocol.errors import ApiError
    from barnabas.rpc.client_request import UnsupportedVersion

    # The clients log each retry; a command shows only the outcome, and why it waits for a broker.
    logging.getLogger("barnabas").addHandler(logging.NullHandler())
    connections = logging.getLogger("barnabas.rpc.connection_failures")
    if not any(isinstance(handler, _WaitingLines) for handler in connections.handlers):
        connections.addHandler(_WaitingLines())
    try:
        yield
    except ApiError as error:
        fail(f"{error.message} ({error.code.name})")
    except AuthenticationError as error:
        fail(f"{str(error)[:1].lower()}{str(error)[1:]}")
    except UnsupportedVersion as error:
        fail(f"the broker cannot do this: {error}")
    # Before ClientTimeout, of which it is a kind.
    except Unreachable as error:
        fail(f"{str(error)[:1].lower()}{str(error)[1:]}")
    except ClientTimeout as error:
        fail(f"no answer from {bootstrap_servers} in time: {error}")
    except BrokenPipeError:
        # The reader of this output, such as head or less, has ended. Without the close, Python would report at its end
        # that stdout cannot be flushed.
        sys.stderr.close()
        sys.exit(EXIT_FAILED)
    except ConnectionError as error:
        fail(f"cannot talk to {bootstrap_servers}: {error}")
    except (KeyboardInterrupt, WokenUp):
        sys.exit(EXIT_INTERRUPTED)
    except ValueError as error:
        fail(str(error), EXIT_USAGE)


class _WaitingLines(logging.Handler):
    """Writes the warnings about brokers that cannot be reached to stderr, each as one line.

    The clients limit their rate. Called on the threads of the clients; the handler's own lock guards the last line.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._last: tuple[object, ...] = ()
        self._last_seconds = 0.0

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line, unless the last one said the same: a consumer in a group has two clients."""
        # Address and reason; the number of attempts may differ.
        what = record.args[:2] if isinstance(record.args, tuple) else ()
        if what == self._last and record.created - self._last_seconds < _REPEAT_SECONDS:
            return
        self._last, self._last_seconds = what, record.created
        line = record.getMessage()
        click.echo(f"barnabas: {line[:1].lower()}{line[1:]}", err=True)


Connect: TypeAlias = Callable[[], AbstractContextManager["Admin"]]
"""What opens the admin client of a command, in a `with` statement whose errors are those of `friendly_errors`."""


def admin_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options by which a command finds its brokers and bounds its calls, and pass it `connect`, a Connect."""

    @wraps(command)
    def run(*context: click.Context, bootstrap_servers: str, timeout_seconds: float, **given: Any) -> Any:
        return command(*context, connect=partial(_connect, bootstrap_servers, timeout_seconds), **given)

    return option_stack(bootstrap_option, timeout_option)(run)


@contextmanager
def _connect(bootstrap_servers: str, timeout_seconds: float) -> Iterator[Admin]:
    with friendly_errors(bootstrap_servers):
        from barnabas.clients.admin import Admin
        from barnabas.clients.settings.client_config import ClientConfig

        timeout_ms = int(timeout_seconds * 1000)
        timeouts = {"request_timeout_ms": timeout_ms, "bootstrap_timeout_ms": BOOTSTRAP_TIMEOUT_MS}
        config = ClientConfig(**{**command_settings(ClientConfig), **timeouts})
        with Admin(bootstrap_servers, timeout_ms=timeout_ms, config=config) as admin:
            yield admin


def partitions_of(admin: Admin, topics: tuple[str, ...], indexes: tuple[int, ...]) -> list[TopicPartition]:
    """Return these partitions of each topic, or all. Raises ApiError, and ValueError for an unknown partition."""
    from barnabas.protocol.topic_partition import TopicPartition

    found = []
    for name, description in admin.describe_topics(dict.fromkeys(topics)).items():
        existing = [info.partition for info in description.partitions]
        if missing := sorted(set(indexes) - set(existing)):
            raise ValueError(f"{name} has no partition {missing[0]}; it has {len(existing)}, counted from 0")
        found += [TopicPartition(name, index) for index in existing if not indexes or index in indexes]
    return found


def check_place(
    producer: Producer, topic: str, timeout_ms: int, partition: int | None = None
) -> tuple[PartitionInfo, ...]:
    """Return the partitions of a topic before the first record is sent: the send would wait for a missing one.

    A broker that makes topics by itself makes this one now, for which it gets a few seconds. A broker that does not
    answer gets the whole timeout. Raises ApiError, ValueError, ClientTimeout.
    """
    from barnabas.clients.errors import NotInMetadata
    from barnabas.protocol.errors import ApiError, ErrorCode

    try:
        found = _partitions_of_new(producer, topic, timeout_ms)
    except NotInMetadata as error:
        # Nothing more is known: whether a broker makes topics by itself, and why it has not made this one.
        text = f"there is no topic {topic}: brokers have answered, and their topics do not include it ({error})"
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text) from None
    if partition is not None and partition >= len(found):
        raise ValueError(f"{topic} has no partition {partition}; it has {len(found)}, counted from 0")
    return found


def _partitions_of_new(producer: Producer, topic: str, timeout_ms: int) -> tuple[PartitionInfo, ...]:
    """Return the partitions of a topic that a broker may be making. Raises ApiError, ClientTimeout."""
    from barnabas.clients.errors import ClientTimeout, NotInMetadata, Unreachable

    first_ms = min(timeout_ms, _CREATION_TIMEOUT_MS)
    try:
        return producer.partitions_for(topic, first_ms)
    except (Unreachable, NotInMetadata):
        raise
    except ClientTimeout:
        if timeout_ms <= first_ms:
            raise
    return producer.partitions_for(topic, timeout_ms - first_ms)


def fail(message: str, status: int = EXIT_FAILED) -> NoReturn:
    """Write an error to stderr, and end the process. Raises SystemExit."""
    click.echo(f"barnabas: {message}", err=True)
    sys.exit(status)


def parse_pairs(pairs: tuple[str, ...], option: str) -> dict[str, str]:
    """Return NAME=VALUE options as a dict. Raises click.UsageError for anything else."""
    result = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator or not name:
            raise click.UsageError(f"{option} takes NAME=VALUE, not {pair!r}")
        result[name] = value
    return result
