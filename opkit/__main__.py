"""`python -m opkit`, the same as `opkit`."""

from opkit.cli import main

if __name__ == "__main__":
    main(prog_name="opkit")
