"""`lookalike` on the command line, and `python -m lookalike`."""

import sys


def main() -> None:
    """Runs the command line; known failures are one line on standard error and exit code 1."""
    from lookalike.cli import run

    sys.exit(run())


if __name__ == "__main__":
    main()
