"""The world outside: what couriers send, what they are told, and the judges of our own runs."""

from __future__ import annotations

from mutants.mutant import Mutant

HOSTILE = "couriers/test_fetch_hostile.py::"
JUDGE = "devstack/test_judge.py::"
CASES = "couriers/test_cases.py::test_an_answer_is_read_as_its_case_says"
SEVERAL_CASES = (
    "couriers/test_cases.py::test_an_answer_about_several_numbers_is_read_as_its_case_says"
)
SECRETS = "couriers/test_redaction.py::"
SLIPS = "couriers/test_detection.py::"
FETCH = "couriers/test_fetch_gate.py::"
SEVERAL = "couriers/test_several.py::"
UNREAD = "couriers/test_unread_answers.py::"

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
        old="            if len(body) > most:",
        new="            if len(body) < 0:",
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
        name="what is said of nobody is said of everybody who was asked for",
        breaks="I8",
        where="couriers/http/several.py",
        old="        names = _names(piece, cut)\n",
        new="        names = _names(piece, cut) or set(numbers)\n",
        tests=(
            SEVERAL + "test_parts_of_one_name_belong_together_and_one_without_a_name_is_nobodys",
        ),
    ),
    Mutant(
        name="one bad number among several makes all of them invalid",
        breaks="I8",
        where="couriers/http/several.py",
        old="        raise RequestRefused(invalid.message) from invalid\n",
        new="        raise\n",
        tests=(SEVERAL + "test_an_answer_about_nobody_is_a_failure_of_the_whole_call",),
    ),
    Mutant(
        name="a parser that breaks over one number breaks over all that went with it",
        breaks="I9",
        where="couriers/http/several.py",
        old="    except Exception as fault:",
        new="    except KeyError as fault:",
        tests=(SEVERAL + "test_a_parser_that_breaks_over_one_part_has_read_the_others",),
    ),
    Mutant(
        name="what failed of one number keeps what was answered about others",
        breaks="F20",
        where="couriers/http/fetch.py",
        old='        of_one = answer._replace(body=end.part or b"")\n',
        new="        of_one = answer\n",
        tests=(UNREAD + "test_of_an_answer_about_several_numbers_a_failure_keeps_what_is_its_own",),
    ),
    Mutant(
        name="what failed of a whole call is kept with each of its numbers",
        breaks="F20",
        where="couriers/http/fetch.py",
        old='            error.excerpt = ""\n',
        new="",
        tests=(
            UNREAD + "test_a_failure_of_a_whole_call_for_several_numbers_keeps_nothing_of_anybody",
        ),
    ),
    Mutant(
        name="a number that a feed leaves out is not known yet",
        breaks="I8",
        where="couriers/json_feed.py",
        old='        if part == b"null":',
        new='        if part in (b"null", None):',
        tests=(SEVERAL_CASES,),
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
