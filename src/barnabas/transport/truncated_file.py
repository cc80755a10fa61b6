"""The error of a Send whose file is shorter than the range it promised. Apart, because Send is compiled."""

from __future__ import annotations


class TruncatedFile(OSError):
    """A file ended before the range that was promised to the peer: its channel can only close."""
