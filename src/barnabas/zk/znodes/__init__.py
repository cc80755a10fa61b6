"""What stands in each znode of a cluster, and access to it."""
