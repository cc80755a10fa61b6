"""`barnabas log adopt`: makes a stopped Apache Kafka's log directories the data of a Barnabas broker.

Runs on the main thread. Shows the directories' content and the planned changes, and makes them without --dry-run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from barnabas.cli.client_options import EXIT_USAGE, fail
from barnabas.cli.option_types import NUMBER

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from barnabas.broker.log_adoption import AdoptionPlan, LogAdoption
    from barnabas.metadata.topic_adoption import TopicChange


LARGEST_CONFIGURED_BROKER_ID = 1000
"""The default of reserved.broker.max.id."""


@click.command()
@click.argument("log_dirs", metavar="DIR...", nargs=-1, required=True, type=click.Path(exists=True, file_okay=False))
@click.option(
    "--topic-config",
    "topic_configs",
    multiple=True,
    metavar="TOPIC:NAME=VALUE",
    help="A setting of a topic (repeatable).",
)
@click.option(
    "--topic-configs",
    "config_file",
    type=click.Path(exists=True, dir_okay=False),
    help="A file with such settings, one on each line.",
)
@click.option("--broker-id", type=NUMBER, help="The broker's id, for directories whose meta.properties has none.")
@click.option(
    "--metadata-dir",
    type=click.Path(file_okay=False),
    help="The directory of the metadata, as metadata.log.dir. [default: the first DIR]",
)
@click.option("--ignore-leftovers", is_flag=True, help="Adopt although some logs are half-deleted or half-moved.")
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
def adopt(
    log_dirs: tuple[str, ...],
    topic_configs: tuple[str, ...],
    config_file: str | None,
    broker_id: int | None,
    metadata_dir: str | None,
    ignore_leftovers: bool,
    dry_run: bool,
) -> None:
    """Make the log directories of a stopped Apache Kafka the data of a Barnabas broker.

    Name all log directories of one broker. The metadata (topics, their ids, partitions, leader epochs) are built from
    the directories and kept in metadata.sqlite; the logs stay as they are. Topic settings are not in the directories:
    give those that differ from the broker's defaults.

    \b
        barnabas log adopt /var/lib/kafka/data --topic-config flights:retention.ms=-1 --dry-run
    """
    from barnabas.broker.log_adoption import AdoptionOrder, LogAdoption
    from barnabas.storage.errors import LogDirectoryLocked
    from barnabas.zk.store.errors import StoreError

    lines = list(topic_configs)
    if config_file is not None:
        with open(config_file, encoding="utf-8") as file:
            # Options come after the file, so that they win over it.
            lines = [*_settings_in(file), *lines]
    order = AdoptionOrder(log_dirs, metadata_dir, broker_id, _by_topic(lines), ignore_leftovers)
    try:
        with LogAdoption(order) as adoption:
            _adopt(adoption, dry_run=dry_run)
    except (LogDirectoryLocked, StoreError) as error:
        fail(str(error))
    except OSError as error:
        fail(f"cannot adopt {error.filename or ', '.join(log_dirs)}: {error.strerror or error}")


def _adopt(adoption: LogAdoption, *, dry_run: bool) -> None:
    # The plan is shown whole before the first change, and is not begun if any part of it must be refused.
    plan = adoption.plan()
    for line in _describe(adoption, plan):
        click.echo(line)
    for refusal in plan.refusals:
        click.echo(f"barnabas: {refusal}", err=True)
    if plan.refusals:
        fail("nothing was changed")
    if dry_run:
        click.echo("nothing was changed (--dry-run)")
        return
    adoption.carry_out(plan)
    # An id above reserved.broker.max.id was generated. A broker may not be given such an id, but reads it from the
    # directory.
    configured = plan.broker_id if plan.broker_id <= LARGEST_CONFIGURED_BROKER_ID else -1
    overrides = [f"broker.id={configured}", f"log.dirs={','.join(adoption.log_dirs)}"]
    if adoption.metadata_dir != adoption.log_dirs[0]:
        overrides.append(f"metadata.log.dir={adoption.metadata_dir}")
    click.echo("adopted; start it with: barnabas serve " + " ".join(f"--override {one}" for one in overrides))


def _settings_in(lines: Iterable[str]) -> Iterator[str]:
    stripped = (line.strip() for line in lines)
    return (line for line in stripped if line and not line.startswith(("#", "!")))


def _by_topic(settings: Iterable[str]) -> dict[str, dict[str, str]]:
    by_topic: dict[str, dict[str, str]] = {}
    for setting in settings:
        topic, colon, pair = setting.partition(":")
        name, equals, value = pair.partition("=")
        if not (topic and colon and name and equals):
            fail(f"a topic's setting is TOPIC:NAME=VALUE, not {setting!r}", EXIT_USAGE)
        by_topic.setdefault(topic, {})[name.strip()] = value.strip()
    return by_topic


def _describe(adoption: LogAdoption, plan: AdoptionPlan) -> Iterator[str]:
    survey = plan.survey
    yield f"broker {plan.broker_id} of cluster {plan.cluster_id or '(new)'}, metadata in {adoption.metadata_dir}"
    for directory, is_clean in survey.clean.items():
        state = "closed in order" if is_clean else "not closed in order: its logs will be recovered"
        properties = survey.meta_properties.get(directory)
        raft = (
            "; meta.properties of KRaft, to be rewritten in the form without KRaft"
            if properties and properties.version
            else ""
        )
        yield f"{directory}: {state}{raft}"
    for path in survey.raft_metadata:
        yield f"{path}: KRaft's metadata, left alone and not used"
    for path in survey.leftovers:
        yield f"{path}: of a log that was being deleted, moved or set aside"
    for change in plan.changes:
        yield _describe_topic(change, sum(found.segment_count for found in survey.topics[change.topic.name]))
    if any(not change.topic.configs for change in plan.changed_topics):
        yield (
            "topics without settings get the broker's: with log.retention.hours=168, records older than a week will be"
            " deleted"
        )


def _describe_topic(change: TopicChange, segments: int) -> str:
    from barnabas.protocol.uuid import uuid_to_string

    topic = change.topic
    epochs = sorted({epoch + 1 for number, epoch in topic.latest_epochs.items() if number in change.newly_led})
    identity = uuid_to_string(topic.topic_id) if topic.topic_id is not None else "new"
    parts = [f"topic {topic.name}: {len(topic.latest_epochs)} partitions, {segments} segments, id {identity}"]
    if not change.is_needed:
        parts.append("known already")
    elif not change.is_new:
        parts.append("known, to be completed")
    if epochs:
        parts.append(f"leader epochs {epochs[0]} to {epochs[-1]}" if len(epochs) > 1 else f"leader epoch {epochs[0]}")
    parts += [f"{name}={value}" for name, value in topic.configs.items()]
    return ", ".join(parts)
