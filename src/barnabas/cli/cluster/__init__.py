"""`barnabas cluster`."""
