"""``python -m intact`` is the command ``intact``, for an interpreter whose scripts are not on the path."""

from intact.cli import main

if __name__ == "__main__":
    main()
