"""Make the virtual environment of this checkout; `make` runs it.

This file keeps to what every Python can read, so that an old one gets as far as saying that it is too old.
The work is in `environment.py` beside it.
"""

from __future__ import print_function

import sys

if sys.version_info < (3, 11):
    sys.exit(
        "make: %s is Python %d.%d, and Tidings needs 3.11 or newer.\n"
        "      Install a newer one, or name it: make PYTHON=/path/to/python3.12"
        % (sys.executable, sys.version_info[0], sys.version_info[1])
    )

import environment

environment.main()
