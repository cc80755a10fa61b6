"""What a running broker does, seen from its sockets and its files."""
