"""The loading of transactional ids from `__transaction_state`, when the broker becomes the leader of a partition."""
