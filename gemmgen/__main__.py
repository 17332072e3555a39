"""`python -m gemmgen`, the same as the command `gemmgen`."""

import sys

from gemmgen.cli import main

sys.exit(main())
