"""The command `audit`, and `python -m audit`."""

from audit.cli.interrupts import listen


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
