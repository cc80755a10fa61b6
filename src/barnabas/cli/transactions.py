"""`barnabas transactions`: shows transactions, finds those that hang in a partition, and ends them.

Runs on the main thread; no state. Kafka: TransactionsCommand (kafka-transactions.sh).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from barnabas.cli.client_options import Connect, admin_options
from barnabas.cli.option_types import NUMBER, OFFSET, utc_time
from barnabas.cli.tables import print_table
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.clients.admin import Admin, ProducerState

_PARTITIONS_PER_REQUEST: Final = 500
_MINUTE_MS: Final = 60_000


@click.group()
def transactions() -> None:
    """Show transactions, and end those that hang."""


@transactions.command("list")
@click.option("--state", "states", metavar="STATE", multiple=True, help="Only of this state, such as Ongoing.")
@click.option("--producer-id", "producer_ids", type=OFFSET, multiple=True, help="Only of this producer id.")
@click.option("--longer-than-ms", type=OFFSET, help="Only those that have been open for longer (Kafka 3.8).")
@admin_options
def list_(connect: Connect, states: tuple[str, ...], producer_ids: tuple[int, ...], longer_than_ms: int | None) -> None:
    """List transactional ids, with coordinator, producer id and state.

    \b
        barnabas transactions list
        barnabas transactions list --state Ongoing
    """
    with connect() as admin:
        found = admin.list_transactions(states=states, producer_ids=producer_ids, longer_than_ms=longer_than_ms)
    rows = [(each.transactional_id, str(each.coordinator_id), str(each.producer_id), each.state) for each in found]
    print_table(("transactional id", "coordinator", "producer", "state"), rows)


@transactions.command()
@click.argument("transactional_id")
@admin_options
def describe(transactional_id: str, connect: Connect) -> None:
    """Show the state, the start and the partitions of a transactional id."""
    with connect() as admin:
        found = admin.describe_transactions([transactional_id])[transactional_id]
    started = "-" if found.start_time_ms is None else utc_time(found.start_time_ms)
    row = (
        str(found.coordinator.id),
        str(found.producer_id),
        str(found.producer_epoch),
        found.state,
        str(found.timeout_ms),
        started,
        ",".join(map(str, found.partitions)) or "-",
    )
    print_table(("coordinator", "producer", "epoch", "state", "timeout ms", "started", "partitions"), [row])


@transactions.command("describe-producers")
@click.argument("topic")
@click.argument("partition", type=NUMBER)
@click.option("--broker-id", type=NUMBER, help="Ask this replica instead of the leader.")
@admin_options
def describe_producers(topic: str, partition: int, broker_id: int | None, connect: Connect) -> None:
    """Show the producers that a partition knows, and where their open transactions begin."""
    key = TopicPartition(topic, partition)
    with connect() as admin:
        found = admin.describe_producers([key], broker_id=broker_id)[key]
    rows = [
        (
            str(each.producer_id),
            str(each.producer_epoch),
            str(each.coordinator_epoch),
            str(each.last_sequence),
            utc_time(each.last_timestamp_ms),
            str(each.current_transaction_start_offset) if each.current_transaction_start_offset >= 0 else "none",
        )
        for each in found
    ]
    print_table(("producer", "epoch", "coordinator epoch", "last sequence", "last time", "transaction from"), rows)


@transactions.command("find-hanging")
@click.option("--topic", help="Search the partitions of this topic.")
@click.option("--partition", type=NUMBER, help="Search only this partition of the topic.")
@click.option("--broker-id", type=NUMBER, help="Search the partitions that have a replica on this broker.")
@click.option(
    "--max-transaction-timeout",
    "minutes",
    type=NUMBER,
    default=15,
    show_default=True,
    metavar="MINUTES",
    help="Show only transactions whose last batch is older: `transaction.max.timeout.ms` of the brokers.",
)
@admin_options
def find_hanging(
    topic: str | None, partition: int | None, broker_id: int | None, minutes: int, connect: Connect
) -> None:
    """Find transactions that are open in a partition, and that no coordinator will end.

    Readers of committed records see nothing behind them until `abort` ends them.

    \b
        barnabas transactions find-hanging --broker-id 0
        barnabas transactions find-hanging --topic flights --partition 3
    \f
    Raises UsageError when neither a topic nor a broker limits the search.
    """
    if topic is None and broker_id is None:
        raise click.UsageError("find-hanging needs --topic or --broker-id, which limit the search")
    if topic is None and partition is not None:
        raise click.UsageError("--partition needs --topic")
    search = _HangingSearch(topic, partition, broker_id, minutes * _MINUTE_MS)
    with connect() as admin:
        found = _hanging_transactions(admin, search, int(time.time() * 1000))
    rows = [
        (
            each.topic_partition.topic,
            str(each.topic_partition.partition),
            str(each.producer.producer_id),
            str(each.producer.producer_epoch),
            str(each.producer.coordinator_epoch),
            str(each.producer.current_transaction_start_offset),
            utc_time(each.producer.last_timestamp_ms),
            str(each.age_ms // _MINUTE_MS),
        )
        for each in found
    ]
    columns = ("topic", "partition", "producer", "epoch", "coordinator epoch", "start offset", "last time", "minutes")
    print_table(columns, rows)


@transactions.command()
@click.argument("topic")
@click.argument("partition", type=NUMBER)
@click.option("--start-offset", type=OFFSET, required=True, help="Where the transaction begins: `describe-producers`.")
@admin_options
def abort(topic: str, partition: int, start_offset: int, connect: Connect) -> None:
    """Abort a transaction in one partition, without its coordinator.

    Only for a transaction that hangs: one that its coordinator no longer knows. Readers of committed records see
    nothing behind it.
    \f
    Raises ClickException when no transaction begins at this offset.
    """
    from barnabas.clients.admin import OpenTransaction

    key = TopicPartition(topic, partition)
    with connect() as admin:
        producers = admin.describe_producers([key])[key]
        found = next((each for each in producers if each.current_transaction_start_offset == start_offset), None)
        if found is None:
            raise click.ClickException(f"no transaction of {key} begins at offset {start_offset}")
        admin.abort_transaction(OpenTransaction(key, found.producer_id, found.producer_epoch, found.coordinator_epoch))
    click.echo(f"{key}\tproducer {found.producer_id}\taborted from {start_offset}")


@transactions.command("force-terminate")
@click.argument("transactional_id")
@admin_options
def force_terminate(transactional_id: str, connect: Connect) -> None:
    """Abort the open transaction of a transactional id, and make its producer fail."""
    with connect() as admin:
        fenced = admin.fence_producers([transactional_id])[transactional_id]
    click.echo(f"{transactional_id}\tproducer {fenced.producer_id}\tepoch {fenced.epoch}")


# -- the search for hanging transactions


class _HangingSearch(NamedTuple):
    """The partitions to search: those of a topic, one of them, or those with a replica on a broker.

    older_than_ms: the age of the last batch of a transaction, from which on it is a candidate.
    """

    topic: str | None
    partition: int | None
    broker_id: int | None
    older_than_ms: int


class _HangingTransaction(NamedTuple):
    """An open transaction of a producer in one partition. age_ms: since its last batch."""

    topic_partition: TopicPartition
    producer: ProducerState
    age_ms: int


def _hanging_transactions(admin: Admin, search: _HangingSearch, now_ms: int) -> list[_HangingTransaction]:
    """Return the transactions that are open in a partition, and unknown to every coordinator.

    A transaction that its coordinator still knows for the partition gets its marker in time, however old it is. Any
    other one stays open until an operator aborts it: the last stable offset of its partition stands still, and readers
    of committed records with it. The result is sorted by partition and producer id. Raises ApiError, ClientTimeout.
    Kafka: TransactionsCommand.FindHangingTransactionsCommand.
    """
    partitions = list(_partitions_to_search(admin, search))
    candidates = list(_old_transactions(admin, search, partitions, now_ms))
    if not candidates:
        return []
    expected = _partitions_by_producer(admin, {each.producer.producer_id for each in candidates})
    return sorted(
        each for each in candidates if each.topic_partition not in expected.get(each.producer.producer_id, ())
    )


def _partitions_to_search(admin: Admin, search: _HangingSearch) -> Iterator[TopicPartition]:
    if search.topic is not None and search.partition is not None:
        yield TopicPartition(search.topic, search.partition)
        return
    topics = admin.list_topics(include_internal=True) if search.topic is None else [search.topic]
    for name, description in admin.describe_topics(topics).items():
        for info in description.partitions:
            if search.broker_id is None or search.broker_id in info.replicas:
                yield TopicPartition(name, info.partition)


def _old_transactions(
    admin: Admin, search: _HangingSearch, partitions: Iterable[TopicPartition], now_ms: int
) -> Iterator[_HangingTransaction]:
    for some in _slices(partitions):
        for key, producers in admin.describe_producers(some, broker_id=search.broker_id).items():
            for producer in producers:
                age_ms = now_ms - producer.last_timestamp_ms
                if producer.current_transaction_start_offset >= 0 and age_ms > search.older_than_ms:
                    yield _HangingTransaction(key, producer, age_ms)


def _slices(partitions: Iterable[TopicPartition]) -> Iterator[Sequence[TopicPartition]]:
    """Yield the partitions in parts: one request about all partitions of a broker would be too much for it."""
    remaining = iter(partitions)
    while some := list(islice(remaining, _PARTITIONS_PER_REQUEST)):
        yield some


def _partitions_by_producer(admin: Admin, producer_ids: set[int]) -> dict[int, tuple[TopicPartition, ...]]:
    """Return the partitions whose markers coordinators will write, by producer id; unknown ids are left out."""
    found = {}
    for listed in admin.list_transactions(producer_ids=sorted(producer_ids)):
        try:
            described = admin.describe_transactions([listed.transactional_id])[listed.transactional_id]
        except ApiError as error:
            # The id has expired since it was listed.
            if error.code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                raise
            continue
        found[listed.producer_id] = described.partitions
    return found
