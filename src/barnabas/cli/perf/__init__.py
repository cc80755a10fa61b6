"""`barnabas perf`."""
