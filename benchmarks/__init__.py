"""Measurements, each against a counterpart of the same run. Nothing here is a test; nothing asserts a time."""
