"""What the tests of couriers, doors and tubes share is used here too."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path += [str(Path(__file__).parents[1] / name) for name in ("couriers", "door", "tubes")]
