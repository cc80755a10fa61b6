"""Produce, Fetch and DeleteRecords on the partitions of a broker, and their wait in a purgatory."""
