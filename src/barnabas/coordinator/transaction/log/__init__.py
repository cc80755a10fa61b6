"""The records of `__transaction_state`: their bytes, and how they are appended."""
