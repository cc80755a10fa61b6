"""The consumer's part in its group: membership, heartbeats, rebalances, committed offsets."""
