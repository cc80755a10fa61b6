"""What one client's request does to the other clients: `make stalls`, see `campaign`."""
