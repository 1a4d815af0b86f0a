"""`python -m visbench`."""

from visbench.cli import main

main()
