"""The couriers' own tests know how each courier answers, and how to play one on the wire."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "couriers"))
