"""`python -m stelmo`, the same as the command `stelmo`."""

from stelmo.cli.main import main

main()
