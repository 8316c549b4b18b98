"""`python -m kapitza` is the command `kapitza`."""

from kapitza.cli import main

if __name__ == "__main__":
    main()
