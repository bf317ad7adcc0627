"""Sending deliveries: whither, over which connection, and how much of a receiver is believed."""

from __future__ import annotations

from mutants.mutant import Mutant

SENDER = "deliveries/test_sender.py::"
INSIDE = "deliveries/test_sender_inside.py::"
WORDS = "deliveries/test_destination.py::"
CERTIFICATES = "deliveries/test_sender_certificates.py::"

SENDING = "service/worker/deliveries/sender.py"
DESTINATION = "service/worker/deliveries/destination.py"

MUTANTS = (
    Mutant(
        name="a delivery's socket is made without a look at its address",
        breaks="F20",
        where=SENDING,
        old="                socket_factory=Guard(allowed),\n",
        new="",
        tests=(INSIDE + "test_a_name_that_leads_inside_is_not_connected_to",),
    ),
    Mutant(
        name="an address that IPv6 makes of an IPv4 one counts as public",
        breaks="F20",
        where=DESTINATION,
        old='            "2002::/16",  # 6to4: an IPv4 address stands in it\n',
        new="",
        tests=(INSIDE + "test_a_name_that_leads_inside_is_not_connected_to",),
    ),
    Mutant(
        name="carriers' NAT counts as public",
        breaks="F20",
        where=DESTINATION,
        old='        "100.64.0.0/10",  # shared by carriers\' NAT\n',
        new="",
        tests=(INSIDE + "test_a_name_that_leads_inside_is_not_connected_to",),
    ),
    Mutant(
        name="a short or hexadecimal address counts as a name",
        breaks="F20",
        where=DESTINATION,
        old="    if _NUMERIC.fullmatch(name):",
        new="    if not name:",
        tests=(WORDS + "test_an_address_that_cannot_be_served_is_refused_with_the_reason",),
    ),
    Mutant(
        name="an account delivers over the connections of one that is allowed more",
        breaks="F20",
        where=SENDING,
        old="        if (found := self._sessions.get(allowed)) is None:",
        new="        if (found := next(iter(self._sessions.values()), None)) is None:",
        tests=(
            INSIDE + "test_a_connection_of_an_account_is_never_used_for_one_that_is_allowed_less",
        ),
    ),
    Mutant(
        name="a destination is judged when it is set, and never again",
        breaks="F20",
        where=SENDING,
        old="found = allowed, parse_destination(destination, allowed, self._own)",
        new="found = allowed, URL(destination)",
        tests=(INSIDE + "test_only_the_ports_of_https_are_reached",),
    ),
    Mutant(
        name="a delivery follows redirects",
        breaks="F20",
        where=SENDING,
        old="allow_redirects=False",
        new="allow_redirects=True",
        tests=(SENDER + "test_a_redirect_leads_nowhere",),
    ),
    Mutant(
        name="what a receiver answers is unpacked",
        breaks="F20",
        where=SENDING,
        old="                decompresses=False,\n",
        new="",
        tests=(SENDER + "test_a_gzip_bomb_is_kept_as_it_came",),
    ),
    Mutant(
        name="a receiver's body is read to its end",
        breaks="F20",
        where=SENDING,
        old="                del self.body[BODY_MOST:]\n                return\n",
        new="                del self.body[BODY_MOST:]\n",
        tests=(
            SENDER
            + "test_of_an_answer_without_end_the_beginning_is_read_and_the_connection_closed",
        ),
    ),
    Mutant(
        name="an attempt has no time-out of its own",
        breaks="F20",
        where=SENDING,
        old="            async with asyncio.timeout(seconds):",
        new="            async with asyncio.timeout(None):",
        tests=(SENDER + "test_a_receiver_that_sends_a_byte_at_a_time_is_ended_by_the_time_out",),
    ),
    Mutant(
        name="a delivery leaves without its permit",
        breaks="I3",
        where=SENDING,
        old="allow_redirects=False, middlewares=(gate,)",
        new="allow_redirects=False",
        tests=(SENDER + "test_at_the_stamp_the_operating_system_has_the_whole_delivery",),
    ),
    Mutant(
        name="a bad certificate is good enough",
        breaks="F20",
        where=SENDING,
        old="                ssl=self._tls,",
        new="                ssl=False,",
        tests=(CERTIFICATES + "test_a_bad_certificate_gets_nothing",),
    ),
    Mutant(
        name="an account's headers take the place of the signature",
        breaks="F20",
        where=SENDING,
        old=".items() if is_header(name, value)",
        new=".items()",
        tests=(
            SENDER
            + "test_headers_of_the_service_are_sent_but_never_in_the_place_of_those_that_we_send",
        ),
    ),
    Mutant(
        name="a delivery that came through here twice goes round once more",
        breaks="I9",
        where=SENDING,
        old="    if passages(before) > _OVER_HERE:",
        new="    if passages(before) < 0:",
        tests=(SENDER + "test_what_came_through_here_more_than_once_goes_nowhere",),
    ),
)
