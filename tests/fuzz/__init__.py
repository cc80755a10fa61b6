"""Hostile input over real sockets, for as long as it is told to."""
