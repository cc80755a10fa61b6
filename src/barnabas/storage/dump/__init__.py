"""The output of `barnabas log dump` for each kind of file, and the damage that it finds.

Called by the command line only; reads files and nothing else. Kafka: DumpLogSegments.
"""
