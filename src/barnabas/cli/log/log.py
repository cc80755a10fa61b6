"""`barnabas log`: shows log directories and the files in them, or adopts Apache Kafka's.

Runs on the main thread; no state. Only `dirs` needs running brokers.
Kafka: DumpLogSegments, TransactionLog.formatRecordKeyAndValue.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from barnabas.cli.client_options import EXIT_FAILED, Connect, admin_options, fail
from barnabas.cli.log.log_adopt import adopt
from barnabas.cli.log.log_sidecars import sidecars
from barnabas.cli.option_types import NUMBER

if TYPE_CHECKING:
    from barnabas.clients.admin import LogDir
    from barnabas.coordinator.transaction.transaction_metadata import TransactionMetadata
    from barnabas.storage.dump import RecordText


@click.group()
def log() -> None:
    """Show log directories and their files; adopt those of Apache Kafka."""


log.add_command(adopt)
log.add_command(sidecars)


@log.command()
@admin_options
@click.option("--broker", "brokers", type=NUMBER, metavar="ID", multiple=True, help="Only this broker (repeatable).")
@click.option("--topic", "topics", metavar="NAME", multiple=True, help="Only replicas of this topic (repeatable).")
@click.option("--partitions", is_flag=True, help="Print a line for every replica.")
def dirs(connect: Connect, brokers: tuple[int, ...], topics: tuple[str, ...], partitions: bool) -> None:
    """Show the log directories of running brokers: state, replicas, their bytes, free space."""
    with connect() as admin:
        for broker_id in brokers or [node.id for node in admin.describe_cluster().nodes]:
            for directory in admin.describe_log_dirs(broker_id):
                _show_directory(broker_id, directory, topics, with_replicas=partitions)


def _show_directory(broker_id: int, directory: LogDir, topics: tuple[str, ...], *, with_replicas: bool) -> None:
    replicas = sorted((key, info) for key, info in directory.replicas.items() if not topics or key.topic in topics)
    state = directory.error.name if directory.error else "ok"
    used = sum(info.size for _, info in replicas)
    room = f"free {directory.usable_bytes} of {directory.total_bytes}" if directory.total_bytes >= 0 else "free unknown"
    click.echo(f"broker {broker_id}\t{directory.path}\t{state}\treplicas {len(replicas)}\tbytes {used}\t{room}")
    if with_replicas:
        for key, info in replicas:
            future = "\tmoving here" if info.is_future else ""
            click.echo(f"\t{key.topic}-{key.partition}\tbytes {info.size}\tlag {info.offset_lag}{future}")


@log.command()
@click.argument("paths", metavar="FILE...", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False))
@click.option("--deep-iteration", is_flag=True, help="Print every record of a .log file, not only its batches.")
@click.option("--print-data-log", "--print-records", is_flag=True, help="Print keys and values of the records too.")
@click.option(
    "--transaction-log-decoder", is_flag=True, help="Print the records as those of __transaction_state, decoded."
)
@click.option("--verify-index-only", is_flag=True, help="Compare indexes with their logs without printing them.")
@click.option("--index-sanity-check", is_flag=True, help="Only check whether a starting broker would rebuild an index.")
def dump(
    paths: tuple[str, ...],
    deep_iteration: bool,
    print_data_log: bool,
    transaction_log_decoder: bool,
    verify_index_only: bool,
    index_sanity_check: bool,
) -> None:
    """Show the content of files of a log directory, as Kafka's DumpLogSegments does.

    Reads segments (.log), indexes (.index, .timeindex, .txnindex), producer snapshots (.snapshot), checkpoint files,
    partition.metadata and meta.properties. Compares indexes with their log. Damage is reported on stderr, and makes the
    exit status 1. Needs no broker.

    \b
        barnabas log dump /var/lib/barnabas/flights-0/00000000000000000000.log --print-data-log
        barnabas log dump /var/lib/barnabas/flights-0/*.{index,timeindex} --verify-index-only
        barnabas log dump /var/lib/barnabas/flights-0/*.snapshot /var/lib/barnabas/*-checkpoint
        barnabas log dump /var/lib/barnabas/__transaction_state-*/*.log --transaction-log-decoder
    """
    from barnabas.runtime.files import OperatingSystemFiles
    from barnabas.storage.checkpoints import MalformedCheckpoint
    from barnabas.storage.dump import Complaint, DumpTerms, IndexCheck, dump_file

    check = IndexCheck.VERIFY if verify_index_only else IndexCheck.PRINT
    terms = DumpTerms(
        deep_iteration,
        print_data_log,
        IndexCheck.SANITY if index_sanity_check else check,
        transaction_record_text if transaction_log_decoder else None,
    )
    # Read-only: the files may belong to a broker that runs.
    files = OperatingSystemFiles(read_only=True)
    has_complaints = False
    for path in paths:
        try:
            for line in dump_file(path, files, terms):
                # Damage goes to stderr, so that a script gets the content of the files alone from stdout.
                is_complaint = isinstance(line, Complaint)
                click.echo(line, err=is_complaint)
                has_complaints |= is_complaint
        # The reader of this output, such as head, has seen enough.
        except BrokenPipeError:
            return
        except OSError as error:
            fail(f"cannot read {error.filename or path}: {error.strerror}")
        except MalformedCheckpoint as error:
            fail(str(error))
    if has_complaints:
        sys.exit(EXIT_FAILED)


def transaction_record_text(key: bytes | None, value: bytes | None) -> RecordText:
    """Return the text of a record of `__transaction_state`, in the words of Kafka's DumpLogSegments.

    Raises DecodeError, UnicodeDecodeError when it is malformed.
    """
    from barnabas.coordinator.runtime.record import version_of
    from barnabas.coordinator.transaction.transaction_log import TransactionLogKey, decode_key, decode_value
    from barnabas.protocol.errors import DecodeError
    from barnabas.storage.dump import RecordText

    if key is None:
        raise DecodeError("a record of the transaction log needs a key")
    version = version_of(key)
    if not TransactionLogKey.min_version <= version <= TransactionLogKey.max_version:
        return RecordText(f"unknown::version={version}", None)
    transactional_id = decode_key(key)
    payload = "<DELETE>" if value is None else _metadata_text(decode_value(transactional_id, value))
    return RecordText(f"transaction_metadata::transactionalId={transactional_id}", payload)


def _metadata_text(metadata: TransactionMetadata) -> str:
    return (
        f"producerId:{metadata.producer_id},producerEpoch:{metadata.producer_epoch},state={metadata.state.shown_name},"
        f"partitions=[{','.join(map(str, sorted(metadata.partitions)))}],"
        f"txnLastUpdateTimestamp={metadata.updated_ms},txnTimeoutMs={metadata.timeout_ms}"
    )
