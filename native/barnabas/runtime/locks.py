"""The lock of the hot path, native: mypyc takes and releases it by a call in C."""

from __future__ import annotations

from librt.threading import Lock

__all__ = ["Lock"]
