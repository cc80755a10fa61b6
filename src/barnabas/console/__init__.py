"""Everything the broker serves over HTTP: its metrics and its health, where `metrics.listen` says so.

Started and stopped by the command line beside the broker, of which it only reads.
"""
