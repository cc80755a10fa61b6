"""The command line: it parses arguments, calls the layers below, and prints. It has no logic of its own."""
