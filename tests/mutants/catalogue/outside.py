"""The world outside: what couriers send, what they are told, and the judges of our own runs."""

from __future__ import annotations

from mutants.mutant import Mutant

HOSTILE = "couriers/test_fetch_hostile.py::"
JUDGE = "devstack/test_judge.py::"
CASES = "couriers/test_cases.py::test_an_answer_is_read_as_its_case_says"
SECRETS = "couriers/test_redaction.py::"
SLIPS = "couriers/test_detection.py::"
FETCH = "couriers/test_fetch_gate.py::"

MUTANTS = (
    Mutant(
        name="secrets are taken out only as they are written",
        breaks="F20",
        where="couriers/http/redaction.py",
        old='            forms |= {secret, quote(secret, safe=""), quote_plus(secret), encoded}',
        new="            forms |= {secret, encoded}",
        tests=(SECRETS + "test_every_form_of_a_secret_is_blanked",),
    ),
    Mutant(
        name="an excerpt is cut before its secrets are taken out",
        breaks="F20",
        where="couriers/http/redaction.py",
        old='plain = _CONTROL.sub(" ", body.decode("utf-8", "replace"))',
        new='plain = _CONTROL.sub(" ", body[:EXCERPT_BYTES].decode("utf-8", "replace"))',
        tests=(SECRETS + "test_half_a_secret_at_the_edge_does_not_survive",),
    ),
    Mutant(
        name="a complaint about the configuration quotes the password",
        breaks="F20",
        where="service/config/cross_checks.py",
        old="yield Finding(path, shown(masked(address)), error.expected, error.fix)",
        new="yield Finding(path, shown(address), error.expected, error.fix)",
        tests=("config/test_refusing.py::test_no_complaint_quotes_a_password",),
    ),
    Mutant(
        name="log lines are written with their secrets",
        breaks="F20",
        where="service/observe/redact.py",
        old="        text = redact(text, secrets)\n",
        new="        pass\n",
        tests=("observe/test_log.py::test_secrets_are_taken_out",),
    ),
    Mutant(
        name="an answer may be of any size",
        breaks="I9",
        where="couriers/http/fetch.py",
        old="        if len(body) > BODY_BYTES:",
        new="        if len(body) < 0:",
        tests=(HOSTILE + "test_a_gzip_bomb_is_cut_off_without_being_unfolded",),
    ),
    Mutant(
        name="redirects are followed",
        breaks="I3",
        where="couriers/http/fetch.py",
        old="allow_redirects=False",
        new="allow_redirects=True",
        tests=(HOSTILE + "test_a_redirect_is_not_followed_and_is_no_answer",),
    ),
    Mutant(
        name="a request whose connection broke is sent again unasked",
        breaks="I3",
        where="couriers/http/session.py",
        old="        except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as broken:",
        new="        except ZeroDivisionError as broken:",
        tests=(FETCH + "test_a_kept_connection_that_breaks_is_not_asked_twice",),
    ),
    Mutant(
        name="XML may declare entities",
        breaks="I9",
        where="couriers/reading/answer.py",
        old="    if root.getroottree().docinfo.internalDTD is not None:",
        new="    if root is None:",
        tests=("couriers/test_xml_answers.py::test_what_is_no_xml_or_more_than_xml_is_unreadable",),
    ),
    Mutant(
        name="any page that says not found is a parcel that is not known yet",
        breaks="I8",
        where="couriers/bpost.py",
        old="if status == HTTPStatus.NOT_FOUND and _NO_ITEM.match(body):",
        new="if status == HTTPStatus.NOT_FOUND:",
        tests=(CASES,),
    ),
    Mutant(
        name="a parcel that is handed to the depot is delivered",
        breaks="I8",
        where="couriers/purolator.py",
        old="    if by_words or known is None:",
        new="    if known is None:",
        tests=(CASES,),
    ),
    Mutant(
        name="a check that passes by chance goes before a slip of the pen",
        breaks="I8",
        where="couriers/detection.py",
        old="        return (1, -own)",
        new="        return (sign + 2, 0)",
        tests=(SLIPS + "test_a_slip_in_a_number_of_dhl_paket_is_no_number_of_somebody_else",),
    ),
    Mutant(
        name="a number may reach another path of the courier",
        breaks="I8",
        where="couriers/http/fetch.py",
        old='quote(segment, safe="")',
        new='quote(segment, safe="/?")',
        tests=("couriers/test_addresses.py::test_a_segment_is_encoded_as_a_whole",),
    ),
    Mutant(
        name="the judge looks at seconds of the calendar only",
        breaks="I3",
        where="devstack/judge.py",
        old="window = [call for call in window if last.arrived_ns - call.arrived_ns < SECOND_NS]",
        new="window = [\n            call for call in window\n"
        "            if last.arrived_ns // SECOND_NS == call.arrived_ns // SECOND_NS\n        ]",
        tests=("devstack/test_judge.py",),
    ),
    Mutant(
        name="the judge of fault runs forgives lost requests",
        breaks="I1",
        where="tests/reliability/chaos/verdict.py",
        old="        if put.outcome is Outcome.ACKNOWLEDGED and not ends.reached_by(put)\n",
        new="        if put.outcome is None\n",
        tests=("reliability/test_verdict.py",),
    ),
    Mutant(
        name="a fault run proves everything, whatever it hit",
        breaks="I12",
        where="tests/reliability/chaos/verdict.py",
        old="for kind in sorted(kinds - did)]",
        new="for kind in sorted(did - did)]",
        tests=("reliability/test_verdict.py",),
    ),
)
