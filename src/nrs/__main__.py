"""``python -m nrs`` is ``nrs``."""

from nrs.cli.main import main

if __name__ == "__main__":
    main()
