"""An answer about several numbers is cut by names, and each part is read for itself."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from couriers.http.several import Cut, read_each
from couriers.reading.answer import Answer, decode
from tracking.checkpoint import NOT_FOUND_YET, Tracking
from tracking.errors import InvalidNumber, RequestRefused, UnreadableAnswer, WrongNumber

Parts = list[dict[str, str]]
CUT = Cut(("in", "parts"), lambda piece: [decode(piece, dict[str, str]).get("name")])


def parse(_: int, __: Mapping[str, str], body: bytes, number: str) -> Tracking:
    """Read a list of parts, or what an answer without one says."""
    told = json.loads(body)
    parts: Parts = told.get("in", {}).get("parts", [{"what": told.get("what", "")}])
    assert all(part.get("name", number) in (number, f"also {number}") for part in parts)
    for part in parts:
        match part["what"]:
            case "crash":
                raise ZeroDivisionError
            case "invalid":
                raise InvalidNumber("no number of this courier")
            case "unknown":
                return NOT_FOUND_YET
    return NOT_FOUND_YET._replace(service=" ".join(part["what"] for part in parts))


def read(told: object, *numbers: str, cut: Cut = CUT) -> dict[str, object]:
    """Read what came of numbers: the texts of their parts, or the error that is their own."""
    ends = read_each(parse, Answer(200, {}, json.dumps(told).encode()), numbers, cut)
    return {
        number: end.service if isinstance(end, Tracking) else type(end)
        for number, end in ends.items()
    }


def parts(**told: str) -> dict[str, object]:
    return {"in": {"parts": [{"name": name, "what": what} for name, what in told.items()]}}


def test_a_parser_that_breaks_over_one_part_has_read_the_others() -> None:
    told = parts(A1="here", B2="crash", C3="there")

    assert read(told, "A1", "B2", "C3") == {"A1": "here", "B2": UnreadableAnswer, "C3": "there"}


def test_an_error_keeps_its_own_part_in_the_form_of_an_answer_about_one() -> None:
    told = json.dumps(parts(A1="private", B2="invalid")).encode()

    error = read_each(parse, Answer(200, {}, told), ["A1", "B2"], CUT)["B2"]

    assert isinstance(error, InvalidNumber)
    assert json.loads(error.part or b"") == parts(B2="invalid")


def test_parts_of_one_name_belong_together_and_one_without_a_name_is_nobodys() -> None:
    listed = [{"name": "A1", "what": "x"}, {"what": "y"}, {"name": "A1", "what": "z"}]

    assert read({"in": {"parts": listed}}, "A1", "B2") == {"A1": "x z"}
    assert read({"in": {"parts": [{"what": "y"}]}}, "A1") == {"A1": "y"}


def test_a_part_whose_name_cannot_be_read_is_nobodys() -> None:
    listed = [{"name": ["A1"], "what": "x"}, {"name": "B2", "what": "y"}]

    assert read({"in": {"parts": listed}}, "A1", "B2") == {"B2": "y"}


def test_a_number_is_known_by_each_of_its_forms() -> None:
    cut = CUT._replace(forms=lambda number: (number, f"also {number}"))

    found = read(parts(**{"also A1": "x", "B2": "y"}), "A1", "B2", cut=cut)

    assert found == {"A1": "x", "B2": "y"}


@pytest.mark.parametrize(
    ("told", "error"),
    [
        (parts(Z9="here"), WrongNumber),
        ({"what": "invalid"}, RequestRefused),
        ({"what": "unknown"}, UnreadableAnswer),
        ({"in": None, "what": "unknown"}, AttributeError),
    ],
    ids=["other numbers", "no number", "nobody known", "a parser that breaks"],
)
def test_an_answer_about_nobody_is_a_failure_of_the_whole_call(
    told: object, error: type[Exception]
) -> None:
    with pytest.raises(error):
        read(told, "A1", "B2")


def test_where_none_is_known_each_is_not_known_if_the_courier_means_that() -> None:
    cut = CUT._replace(speaks_for_all=True)

    assert read({"what": "unknown"}, "A1", "B2", cut=cut) == {"A1": None, "B2": None}
