"""The known name nearest to one that is misspelt, for error messages.

Called where a setting, an option or a choice is rejected: by the broker's and the clients' settings, the command line,
the test kit's faults and the Spark options. No state.
"""

from __future__ import annotations

from collections.abc import Iterable

_SEPARATORS = str.maketrans("_-", "..")


def nearest_name(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """Return the known name most like `name`, or None if none is close.

    Upper and lower case are alike, and so are dots, underscores and hyphens. cutoff: the least likeness, from 0 to 1.
    """
    import difflib  # noqa: PLC0415 only needed for an error; keeps start-up fast

    names = {_plain(candidate): candidate for candidate in known}
    matches = difflib.get_close_matches(_plain(name.strip()), names, n=1, cutoff=cutoff)
    return names[matches[0]] if matches else None


def nearest_hint(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean ...?` with the nearest known name, or nothing if none is close."""
    nearest = nearest_name(name, known)
    return "" if nearest is None else f"; did you mean {nearest!r}?"


def _plain(name: str) -> str:
    return name.lower().translate(_SEPARATORS)
