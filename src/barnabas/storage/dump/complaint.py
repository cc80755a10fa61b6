"""A line of a dump that reports damage, as opposed to content.

Made by the dump modules, looked for by the command line; immutable.
"""

from __future__ import annotations


class Complaint(str):
    """A line about damage: it is printed on stderr and changes the exit status."""

    __slots__ = ()
