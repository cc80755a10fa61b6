"""The pages that a broker serves over HTTP at `metrics.listen`: its metrics and its health.

Started and stopped by the command line beside the broker, of which it only reads.
"""
