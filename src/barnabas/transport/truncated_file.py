"""The error of a Send whose file is shorter than the range it promised.

Raised on the Selector's thread. In a module of its own because Send's is compiled: mypyc does not compile an OSError.
"""

from __future__ import annotations


class TruncatedFile(OSError):
    """A file ended before the range that was promised to the peer: its channel can only close."""
