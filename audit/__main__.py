"""`python -m audit`."""

from audit.cli.app import main

if __name__ == "__main__":
    main()
