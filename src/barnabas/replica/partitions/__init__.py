"""Partitions that this broker hosts, and the state of each."""
