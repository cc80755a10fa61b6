"""Waiting without a thread: delayed operations, the purgatory that watches over them, and the timing wheel.

Used by the replica layer, the admin handlers and the group coordinator.
"""
