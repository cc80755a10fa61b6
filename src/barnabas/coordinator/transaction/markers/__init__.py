"""The markers that end a transaction in the partitions that it has written to."""
