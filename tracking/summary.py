"""What an operation keeps of an answer: small enough for every one of them. Pure."""

from __future__ import annotations

from tracking.checkpoint import Tag, Tracking


def output_of(tracking: Tracking) -> dict[str, object]:
    """The `output` of an operation that ended in SUCCESS; the rest is in the stored document."""
    return summary(tracking.tag, tracking.subtag, len(tracking.checkpoints))


def summary(tag: Tag, subtag: str, checkpoints: int) -> dict[str, object]:
    """The same of an answer of which only this much is at hand; `checkpoints` is their number."""
    return {
        "tag": str(tag),
        "subtag": subtag,
        "delivered": tag is Tag.DELIVERED,
        "checkpoints": checkpoints,
    }
