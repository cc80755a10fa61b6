"""The hints of error messages about misspelt names."""

from __future__ import annotations

import pytest

from barnabas.config.config_error import nearest_hint, nearest_name


@pytest.mark.parametrize(
    ("name", "known", "nearest"),
    [
        ("log.retention.hour", ["log.retention.hours", "log.dirs"], "log.retention.hours"),
        ("LINGER-MS", ["linger_ms", "batch_size"], "linger_ms"),
        (" log_dirs", ["log.dirs"], "log.dirs"),
        ("jsn", ["bytes", "str", "json"], "json"),
        ("srt", ["bytes", "str", "json"], "str"),
        ("startingOfsets", ["startingOffsets", "endingOffsets"], "startingOffsets"),
        ("quux", ["bytes", "str", "json"], None),
        ("anything", [], None),
    ],
)
def test_the_nearest_name(name: str, known: list[str], nearest: str | None) -> None:
    assert nearest_name(name, known) == nearest
    assert nearest_hint(name, known) == ("" if nearest is None else f"; did you mean {nearest!r}?")
