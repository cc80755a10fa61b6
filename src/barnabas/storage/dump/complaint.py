"""A line of a dump that tells of damage, apart from those that tell of content.

Made by the dump modules, looked for by the command line; immutable.
"""

from __future__ import annotations


class Complaint(str):
    """Something is wrong with the file: printed on stderr, and the exit status says so."""

    __slots__ = ()
