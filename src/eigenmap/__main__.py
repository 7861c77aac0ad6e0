"""`python -m eigenmap`: the command line."""

from eigenmap.cli import main

if __name__ == "__main__":
    main()
