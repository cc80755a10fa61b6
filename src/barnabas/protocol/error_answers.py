"""Builds the answer that says one error everywhere the response of an API has room for an error code.

Called by a `Handler` that has no error answer of its own, on whichever thread answers the request. Pure; the plans are
cached per struct and version, by single assignments of finished values.

The message descriptions say where an error goes:

- `error_code` and `error_message` are set in the response, and in every item that answers an item of the request;
- a field with `repeats` copies the request: an identifier as it is, a list item for item;
- a field with `on_error` has that value; all others keep their defaults.

DeleteRecords v0 of topic "a", partitions 0 and 1, which failed with UNKNOWN_SERVER_ERROR:

    request   topics [name "a", partitions [partition_index 0, offset 7], [partition_index 1, offset 9]]
    response  topics [name "a", partitions [partition_index 0, low_watermark -1, error_code -1],
                                           [partition_index 1, low_watermark -1, error_code -1]]

Kafka: AbstractRequest.getErrorResponse of each request.
"""

from __future__ import annotations

import functools
from typing import Any, Final, NamedTuple

from barnabas.protocol.errors import ApiError
from barnabas.protocol.message_index import response_class
from barnabas.protocol.message_struct import Struct
from barnabas.protocol.messages.message import Message
from barnabas.protocol.schema import KAFKA_DEFAULT, FieldSchema, WireType

_ERROR_CODE: Final = "error_code"
_ERROR_MESSAGE: Final = "error_message"


class _Copy(NamedTuple):
    """A field that repeats one of the request. if_null: its value where the request's is null and this must not be."""

    name: str
    source: str
    if_null: Any


class _Items(NamedTuple):
    """A list that answers a list of the request, item for item."""

    name: str
    source: str
    plan: _Plan
    plain_items_go_to: str | None
    """The field that takes an item of the request which is no struct."""


class _Plan(NamedTuple):
    """The values that an error answer sets in one struct of the response, in one version."""

    struct: type[Struct]
    has_code: bool
    has_message: bool
    values: tuple[tuple[str, Any], ...]
    copies: tuple[_Copy, ...]
    items: tuple[_Items, ...]


def error_answer(request: Message, version: int, error: ApiError) -> Message:
    """Build the response of `request`'s API in `version` that says `error` of the whole and of each item."""
    response: Message = _fill(_plan(response_class(request.api_key), type(request), version), request, error)  # type: ignore[arg-type] # mypy: a class without a metaclass is not hashable
    return response


def _fill(plan: _Plan, source: Any, error: ApiError) -> Any:
    # By the constructor, unlike in decoders: the fields that the plan leaves alone need their defaults.
    answer = plan.struct()
    if plan.has_code:
        setattr(answer, _ERROR_CODE, error.code)
    if plan.has_message:
        setattr(answer, _ERROR_MESSAGE, error.message)
    for name, value in plan.values:
        setattr(answer, name, value)
    for name, source_name, if_null in plan.copies:
        value = getattr(source, source_name)
        # A request may have null where the response of the same version may not: `if_null` is the empty string then.
        setattr(answer, name, if_null if value is None else value)
    for items in plan.items:
        answered = [
            _fill_plain(items, item, error) if items.plain_items_go_to else _fill(items.plan, item, error)
            for item in getattr(source, items.source) or ()
        ]
        setattr(answer, items.name, answered)
    return answer


def _fill_plain(items: _Items, item: Any, error: ApiError) -> Any:
    """Answer an item of the request that is a name or a number."""
    answer = _fill(items.plan, item, error)
    setattr(answer, str(items.plain_items_go_to), item)
    return answer


@functools.cache
def _plan(struct: type[Struct], source: type[Struct] | None, version: int) -> _Plan:
    """Plan the error answer of a struct whose counterpart in the request is `source`; None: a plain item."""
    fields = [field for field in struct.field_schemas() if field.is_present(version)]
    with_value = {
        field.name: _allowed(field, field.declaration.error_value, version)
        for field in fields
        if field.declaration.error_value is not KAFKA_DEFAULT
    }
    # `on_error` wins over the rule for error_code and error_message: some answers leave the text out.
    names = {field.name for field in fields} - with_value.keys()
    copies: list[_Copy] = []
    items: list[_Items] = []
    if source is not None:
        asked = {field.name: field for field in source.field_schemas() if field.is_present(version)}
        for field in fields:
            repeated = next((name for name in field.declaration.repeated if name in asked), None)
            if repeated is None:
                continue
            if field.is_array and field.struct is not None:
                items.append(_items_plan(field, field.struct, asked[repeated], version))
            else:
                copies.append(_Copy(field.name, repeated, _allowed(field, None, version)))
    return _Plan(
        struct, _ERROR_CODE in names, _ERROR_MESSAGE in names, tuple(with_value.items()), tuple(copies), tuple(items)
    )


def _items_plan(field: FieldSchema, struct: type[Struct], asked: FieldSchema, version: int) -> _Items:
    repeating = [each.name for each in struct.field_schemas() if each.declaration.repeated]
    source: Any = asked.struct
    return _Items(field.name, asked.name, _plan(struct, source, version), repeating[0] if source is None else None)  # type: ignore[arg-type] # mypy: a class without a metaclass is not hashable


def _allowed(field: FieldSchema, value: Any, version: int) -> Any:
    """Replace a null that this version cannot write by the empty string."""
    return "" if value is None and field.wire_type is WireType.STRING and not field.is_nullable(version) else value
