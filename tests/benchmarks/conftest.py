"""`benchmarks` is no part of the package that is installed: it is found beside it."""

import sys
from pathlib import Path

# At the end, so that the installed opkit stays the one that is tested.
sys.path.append(str(Path(__file__).parents[2]))
