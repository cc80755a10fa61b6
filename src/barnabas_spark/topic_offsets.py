"""Offsets of several partitions, and their JSON form in Spark's Kafka source: `{"topic": {"0": 23, "1": -2}}`.

Used by the options, the planner and both readers. Plain values; no state, no lock.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, TypeAlias

from barnabas.protocol.topic_partition import TopicPartition

Offsets: TypeAlias = dict[TopicPartition, int]

_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")

LATEST = -1
EARLIEST = -2

START = "(start)"
"""Where a query began, in the end of its first micro-batch: `{"t": {"0": 9}, "(start) t": {"0": 5}}`. No topic's name
has these characters."""


def is_topic_name(name: str) -> bool:
    """Whether Kafka allows a topic of that name."""
    return _TOPIC_NAME.fullmatch(name) is not None and name not in (".", "..")


def offsets_from_json(text: str) -> Offsets:
    """Parse offsets. Raises ValueError, with the reason, for any other text."""
    return offsets_from_parsed(_parse(text))


def timestamps_from_json(text: str) -> dict[TopicPartition, int]:
    """Parse the time of each partition, in milliseconds. Raises ValueError, with the reason, for any other text."""
    return offsets_from_parsed(_parse(text), smallest=0)


def offsets_from_parsed(topics: Mapping[str, Any], smallest: int = EARLIEST) -> Offsets:
    """Return offsets from the parsed form, which Spark passes on. Raises ValueError, with the reason."""
    offsets = {}
    for topic, partitions in topics.items():
        if not isinstance(partitions, dict):
            raise ValueError(_without_partitions(topic, partitions))  # noqa: TRY004 JSON of a user
        for partition, offset in partitions.items():
            # In Python true and false are numbers too, in JSON they are not.
            if (
                not partition.isdecimal()
                or isinstance(offset, bool)
                or not isinstance(offset, int)
                or offset < smallest
            ):
                words = f" ({EARLIEST} stands for earliest, {LATEST} for latest)" if isinstance(offset, str) else ""
                raise ValueError(f"{partition!r}: {offset!r} of topic {topic!r} is no partition with its offset{words}")
            offsets[TopicPartition(topic, int(partition))] = offset
    return offsets


def _without_partitions(topic: str, given: Any) -> str:
    """Return the reason why a topic's value is no object of partitions, with what its words stand for."""
    number = {"earliest": EARLIEST, "latest": LATEST}.get(given.strip().lower()) if isinstance(given, str) else None
    if number is None:
        return f"topic {topic!r} has no object of partitions"
    each = json.dumps({topic: {"0": number, "1": number}})
    return f"topic {topic!r} has {given!r} for all its partitions: name each one, with {number} for {given}: {each}"


def partitions_from_json(text: str) -> list[TopicPartition]:
    """Parse `{"topic": [0, 1]}`. Raises ValueError, with the reason, for any other text."""
    found = []
    for topic, partitions in _parse(text).items():
        if not isinstance(partitions, list) or not partitions:
            raise ValueError(f"topic {topic!r} has no list of partitions")
        for partition in partitions:
            if isinstance(partition, bool) or not isinstance(partition, int) or partition < 0:
                raise ValueError(f"{partition!r} of topic {topic!r} is no partition number")
            found.append(TopicPartition(topic, partition))
    return sorted(set(found))


def offsets_to_json(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """Return the form that goes into Spark's offset log, in order of topic and partition."""
    topics: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        topics.setdefault(topic, {})[str(partition)] = offset
    return topics


def with_start(end: Offsets, start: Offsets) -> dict[str, dict[str, int]]:
    """Return the end of a query's first micro-batch in the form of Spark's offset log, with the query's start."""
    marked = {f"{START} {topic}": partitions for topic, partitions in offsets_to_json(start).items()}
    # A pattern may have matched nothing yet, which is a start too.
    return {**offsets_to_json(end), **(marked or {START: {}})}


def start_in(planned: Mapping[str, Any]) -> Offsets | None:
    """Return the start that a parsed offset of the log has, or None. Raises ValueError, with the reason."""
    marked = {topic: partitions for topic, partitions in planned.items() if topic.startswith(START)}
    if not marked:
        return None
    return offsets_from_parsed({topic.removeprefix(f"{START} "): marked[topic] for topic in marked if marked[topic]})


def planned_offsets(planned: Mapping[str, Any]) -> Offsets:
    """Return the offsets of a parsed offset of the log, without the query's start. Raises ValueError."""
    return offsets_from_parsed({topic: planned[topic] for topic in planned if not topic.startswith(START)})


def _parse(text: str) -> dict[str, Any]:
    """Parse the JSON text. Raises ValueError."""
    try:
        topics = json.loads(text)
    except ValueError as error:
        raise ValueError(f"it is no JSON ({error})") from None
    if not isinstance(topics, dict) or not topics:
        raise ValueError("it is no object of topics")
    for topic in topics:
        if not is_topic_name(topic):
            raise ValueError(f"{topic!r} is no name of a topic")
    return topics


def query_lag(progress: Mapping[str, Any] | None) -> dict[TopicPartition, int]:
    """Return the number of offsets that each partition had more than the micro-batch has read.

    progress: `query.lastProgress`, or an element of `query.recentProgress`; None, as before the first micro-batch, has
    no partitions. Sources whose offsets are not those of topics are passed over.
    """
    lag: dict[TopicPartition, int] = {}
    for source in [] if progress is None else progress["sources"]:
        # Spark describes every Python source alike, so the form of its offsets has to tell.
        read, latest = _offsets(source["endOffset"]), _offsets(source["latestOffset"])
        if read is None or latest is None:
            continue
        for partition, end in latest.items():
            lag[partition] = max(end - read.get(partition, 0), 0)
    return lag


def _offsets(reported: Any) -> dict[TopicPartition, int] | None:
    """Return offsets that Spark reports as text or as parsed JSON, or None for those of another source."""
    try:
        parsed = json.loads(reported) if isinstance(reported, str) else reported
        return planned_offsets(parsed) if isinstance(parsed, dict) else None
    except ValueError:
        return None
