"""detect: which couriers may have a number."""

from __future__ import annotations

from command_line import Run


def test_the_likeliest_courier_comes_first_and_the_others_after_it(offline: Run) -> None:
    done = offline("detect", "986578788855")

    assert done.code == 0
    assert done.lines[1].split()[0] == "fedex"
    assert len(done.lines) > 2


def test_a_machine_gets_a_rank_and_a_word(offline: Run) -> None:
    found = offline("detect", "986578788855", "--json").json

    assert found[0] == {"rank": 1, "slug": "fedex", "name": "FedEx", "why": "checked"}
    assert [each["rank"] for each in found] == list(range(1, len(found) + 1))


def test_nobody_is_a_negative_finding(offline: Run) -> None:
    done = offline("detect", "ABCDEFGHIJKL")

    assert (done.code, done.lines) == (1, ["No courier's numbers look like this."])
    assert offline("detect", "ABCDEFGHIJKL", "--json").out == ""


def test_what_is_no_number_is_told_in_a_line(offline: Run) -> None:
    done = offline("detect", "\u00e9")

    assert done.code == 2
    assert len(done.err.splitlines()) == 1


def test_a_courier_that_nobody_can_ask_is_named_as_such(offline: Run) -> None:
    done = offline("detect", "TBA502887274000")

    assert "looks like Amazon: no module" in done.lines[1]
    [amazon, *_] = offline("detect", "TBA502887274000", "--json").json
    assert (amazon["name"], amazon["why"]) == ("Amazon", "no_module")


def test_a_number_that_only_a_courier_without_a_module_has_is_a_negative_finding(
    offline: Run,
) -> None:
    assert offline("detect", "LTN74207623N1").code == 1
