"""`barnabas log`."""
