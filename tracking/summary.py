"""What an operation is told of an answer: small enough to be kept for every one of them. Pure."""

from __future__ import annotations

from tracking.checkpoint import Tracking


def output_of(tracking: Tracking) -> dict[str, object]:
    """The `output` of an operation that ended in SUCCESS; the rest is in the stored document."""
    return {
        "tag": tracking.tag.value,
        "subtag": tracking.subtag,
        "delivered": tracking.delivered,
        "checkpoints": len(tracking.checkpoints),
    }
