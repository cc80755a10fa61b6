"""Batches of records of one partition, and the futures of their records."""
