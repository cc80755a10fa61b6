"""The records of groups in `__consumer_offsets`: their schemas, and how they are appended."""
