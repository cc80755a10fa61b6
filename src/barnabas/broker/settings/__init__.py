"""Settings of a running broker: what the start reads, and what dynamic changes reach."""
