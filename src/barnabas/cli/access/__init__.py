"""Commands of security: `acls`, `certs`, `tokens`, `users`, and `quotas`."""
