"""The topics that a request names, by name or by id, whatever its API.

Called by FaultInjector on the thread that runs the request, only for plans with a topic; pure. Where an API's request
names topics is read from its declaration: in fields named topic, topic_name and topic_id, in the `name` of the items of
a list of topics, and in lists of topic names. A resource of DescribeConfigs and its relatives is a topic by its type.

A fetch in a session (KIP-227) names only the partitions that changed since its last request.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from functools import cache
from typing import Any, Final, NamedTuple

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.codes import ConfigResourceType
from barnabas.protocol.message_index import request_class
from barnabas.protocol.message_struct import Struct

_LISTS_OF_TOPICS: Final = frozenset(("topics", "topic_data", "v3_and_below_topics"))
_NO_LONGER_READ: Final = "forgotten_topics_data"
_RESOURCE_NAME: Final = "resource_name"


class _Role(Enum):
    """The meaning of a field for the search."""

    TOPIC = "a topic's name or id"
    TOPICS = "a list of names"
    RESOURCE = "the name of a topic, if the resource is one"
    STRUCTS = "structs to search"


class _Place(NamedTuple):
    """A field that the search looks at."""

    field: str
    role: _Role
    is_list: bool = False
    is_list_of_topics: bool = False


def names_topics(api_key: ApiKey) -> bool:
    """Return whether requests of this API can name topics."""
    return bool(_places(request_class(api_key), is_topic=False))  # type: ignore[arg-type] # mypy: a class without a metaclass is not hashable


def named_topics(body: Struct) -> Iterator[str | bytes]:
    """Yield the topics that a request names: names as text, ids as 16 bytes. Fields of other versions are empty."""
    yield from _search(body, is_topic=False)


def _search(struct: Any, *, is_topic: bool) -> Iterator[str | bytes]:
    kind: type[Struct] = type(struct)
    for place in _places(kind, is_topic=is_topic):  # type: ignore[arg-type] # mypy: a class without a metaclass is not hashable
        value = getattr(struct, place.field)
        if value is None:
            continue
        if place.role is _Role.TOPIC:
            yield value
        elif place.role is _Role.TOPICS:
            yield from value
        elif place.role is _Role.RESOURCE:
            if struct.resource_type == ConfigResourceType.TOPIC:
                yield value
        else:
            for item in value if place.is_list else (value,):
                yield from _search(item, is_topic=place.is_list_of_topics)


@cache
def _places(struct: type[Struct], *, is_topic: bool) -> tuple[_Place, ...]:
    """Return the fields of a struct that lead to topics. is_topic: whether it is an item of a list of topics."""
    places = []
    for field in struct.field_schemas():
        if field.name in ("topic", "topic_name", "topic_id") or (is_topic and field.name == "name"):
            places.append(_Place(field.name, _Role.TOPIC))
        elif field.is_array and field.name.endswith("topic_names"):
            places.append(_Place(field.name, _Role.TOPICS))
        elif field.name == _RESOURCE_NAME and any(each.name == "resource_type" for each in struct.field_schemas()):
            places.append(_Place(field.name, _Role.RESOURCE))
        elif field.struct is not None and field.name != _NO_LONGER_READ:
            item: type[Struct] = field.struct
            are_topics = field.name in _LISTS_OF_TOPICS
            if _places(item, is_topic=are_topics):  # type: ignore[arg-type] # mypy: a class without a metaclass is not hashable
                places.append(_Place(field.name, _Role.STRUCTS, field.is_array, are_topics))
    return tuple(places)
