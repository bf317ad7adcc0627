"""One answer out of several: of all pieces of a consignment, or of parcels that share a number."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

from couriers.reading.checkpoints import oldest_first
from tracking.checkpoint import Tracking


def together(pieces: Sequence[Tracking]) -> Tracking:
    """Put the answers about all pieces of a consignment together; expects at least one.

    Every event of every piece is kept. The status is that of the piece seen last among those still
    under way, else among those not delivered: delivered means that all are. The weight is that of
    all, known where each piece's is.
    """
    if len(pieces) == 1:
        return pieces[0]
    active = [piece for piece in pieces if piece.active]
    slowest = active or [piece for piece in pieces if not piece.delivered] or list(pieces)
    codes = {code for piece in pieces for code in piece.unknown_codes}
    weights = [piece.weight_grams for piece in pieces if piece.weight_grams]
    return max(slowest, key=_seen_last)._replace(
        checkpoints=oldest_first(
            chain.from_iterable(piece.checkpoints for piece in pieces), newest_first=False
        ),
        weight_grams=sum(weights) if len(weights) == len(pieces) else None,
        unknown_codes=tuple(sorted(codes)),
    )


def latest(parcels: Iterable[Tracking]) -> Tracking:
    """Choose among parcels that were given the same number the one seen last; expects one."""
    return max(parcels, key=_seen_last)


def _seen_last(piece: Tracking) -> str:
    return piece.checkpoints[-1].checkpoint_time if piece.checkpoints else ""
