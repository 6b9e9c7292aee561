"""The command `audit`, and `python -m audit`."""

from audit.cli.safe_path import leave_out_working_directory

leave_out_working_directory()

from audit.cli.interrupts import listen  # noqa: E402


def main() -> None:
    """Listen to signals before anything else is imported, then run the command line."""
    try:
        listen()
        from audit.cli.app import main as run  # takes a third of a second
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    run()


if __name__ == "__main__":
    main()
