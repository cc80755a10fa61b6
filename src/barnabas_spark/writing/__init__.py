"""The sink: writers of batch and streaming queries."""
