"""The command line: parses arguments, calls the layers below, prints. It holds no logic of its own."""
