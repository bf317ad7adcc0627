"""Python imports this first, in the test process and in every worker that a test starts."""

from __future__ import annotations

from mutants.serving import serve_what_is_asked_for

serve_what_is_asked_for()
