"""The records that wait to be sent."""
