"""Waiting without a thread: delayed operations, the purgatory that watches over them, and the timing wheel.

Used by the replica layer (produce, fetch), the admin handlers (topics) and, later, the coordinators.
"""
