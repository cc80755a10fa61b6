"""The sequence numbers of an idempotent producer."""
