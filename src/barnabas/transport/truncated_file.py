"""The error of a Send whose file is shorter than the range it promised.

Raised on the Selector's thread. It has a module of its own because Send's module can be compiled, and mypyc does not
compile subclasses of OSError.
"""

from __future__ import annotations


class TruncatedFile(OSError):
    """The error for a file that ends before the range that was promised to the peer: the channel can only close."""
