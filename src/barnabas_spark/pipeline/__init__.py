"""Pipelines: YAML files that name sources, SQL or Python transforms and sinks, run as streaming queries of one session.

Start at `run.run_pipeline`; `barnabas pipeline` is its command line. docs/pipelines.md is the reference.
"""
