"""Makes `python -m barnabas` the same as the `barnabas` command."""

from barnabas.cli.main import main

if __name__ == "__main__":
    main()
