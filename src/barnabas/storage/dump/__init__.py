"""What `barnabas log dump` prints of each kind of file, and what it finds wrong with it.

Called by the command line only; reads files and nothing else. Kafka: DumpLogSegments.
"""
