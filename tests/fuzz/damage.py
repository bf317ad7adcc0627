"""Small damage to texts that were right: what is nearly valid reaches further than noise."""

from __future__ import annotations

from hypothesis import strategies as st

SPOT = st.integers(0, 1 << 20)


@st.composite
def damaged(draw: st.DrawFn, whole: bytes, pieces: tuple[bytes, ...], most: int = 4) -> bytes:
    """`whole` after up to `most` cuts, swaps, repeats and insertions of `pieces` or of noise."""
    text = whole
    for _ in range(draw(st.integers(1, most))):
        at = draw(SPOT) % (len(text) + 1)
        to = min(len(text), at + draw(st.integers(0, 12)))
        piece = draw(st.sampled_from(pieces) | st.binary(max_size=6))
        match draw(st.sampled_from(["cut", "put", "swap", "twice", "end"])):
            case "cut":
                text = text[:at] + text[to:]
            case "put":
                text = text[:at] + piece + text[at:]
            case "swap":
                text = text[:at] + piece + text[to:]
            case "twice":
                text = text[:to] + text[at:to] + text[to:]
            case _:
                text = text[:at]
    return text
