"""`python -m diffattn`, the same as `diffattn`."""

from diffattn.cli.main import main

if __name__ == "__main__":
    main()
