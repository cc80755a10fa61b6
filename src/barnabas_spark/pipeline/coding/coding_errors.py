"""What can be wrong with a schema, with one value, and with a schema registry.

Raised by the modules of this package and by `value_formats`, on the driver and in the executors' Python workers; no
state, no lock.
"""

from __future__ import annotations


class FormatError(Exception):
    """A schema, or rows, that the format cannot have. The message says why."""


class BadValue(Exception):
    """A record's value that cannot be decoded. The message says why, and becomes the error of a dead letter."""


class RegistryFailed(Exception):
    """A schema registry that did not answer, or rejected a request. The message has the URL."""
