"""The source: positions, plans and readers of batch and streaming queries."""
