"""Transactions checked for anomalies: histories of appends and reads, the checker, and the broker that is killed."""
