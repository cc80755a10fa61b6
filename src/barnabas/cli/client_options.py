"""What the commands that talk to a broker share: where it is, and how their errors look.

Used by the commands that talk to brokers, on the main thread.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from barnabas.clients.admin import Admin
    from barnabas.protocol.topic_partition import TopicPartition

EXIT_FAILED = 1
EXIT_INTERRUPTED = 130
EXIT_USAGE = 2

bootstrap_option = click.option(
    "-b",
    "--bootstrap-server",
    "bootstrap_servers",
    metavar="HOST:PORT[,...]",
    default="localhost:9092",
    show_default=True,
    envvar="BARNABAS_BOOTSTRAP_SERVER",
    help="Brokers to connect to.",
)

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
    """Turn what the clients raise into one line on stderr and an exit status; anything else is a bug and shows."""
    from barnabas.clients.errors import ClientTimeout
    from barnabas.protocol.errors import ApiError
    from barnabas.rpc.client_request import UnsupportedVersion

    # The clients log what they try again; here only the outcome counts.
    logging.getLogger("barnabas").addHandler(logging.NullHandler())
    try:
        yield
    except ApiError as error:
        fail(f"{error.message} ({error.code.name})")
    except UnsupportedVersion as error:
        fail(f"the broker cannot do this: {error}")
    except ClientTimeout as error:
        fail(f"no answer from {bootstrap_servers} in time: {error}")
    except BrokenPipeError:
        # Whoever read our output (head, less) has seen enough.
        sys.stderr.close()
        sys.exit(EXIT_FAILED)
    except ConnectionError as error:
        fail(f"cannot talk to {bootstrap_servers}: {error}")
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
    except ValueError as error:
        fail(str(error), EXIT_USAGE)


def open_admin(bootstrap_servers: str, timeout_seconds: float) -> Admin:
    """An admin client, to be used in a `with` statement."""
    from barnabas.clients.admin import Admin

    timeout_ms = int(timeout_seconds * 1000)
    return Admin(bootstrap_servers, timeout_ms=timeout_ms, request_timeout_ms=timeout_ms)


def partitions_of(admin: Admin, topics: tuple[str, ...], indexes: tuple[int, ...]) -> list[TopicPartition]:
    """These partitions of each topic, or all of them. ValueError for one that does not exist."""
    from barnabas.protocol.topic_partition import TopicPartition

    found = []
    for name, description in admin.describe_topics(dict.fromkeys(topics)).items():
        existing = [info.partition for info in description.partitions]
        if missing := sorted(set(indexes) - set(existing)):
            raise ValueError(f"{name} has no partition {missing[0]}; it has {len(existing)}, counted from 0")
        found += [TopicPartition(name, index) for index in existing if not indexes or index in indexes]
    return found


def fail(message: str, status: int = EXIT_FAILED) -> None:
    """Say what went wrong, and end."""
    click.echo(f"barnabas: {message}", err=True)
    sys.exit(status)


def parse_pairs(pairs: tuple[str, ...], option: str) -> dict[str, str]:
    """NAME=VALUE options as a dict; click's usage error for anything else."""
    result = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator or not name:
            raise click.UsageError(f"{option} takes NAME=VALUE, not {pair!r}")
        result[name] = value
    return result
