"""An example of each verb and action, and what its exit codes mean: `--help` ends with them.

docs/cli.md is written out of the same table.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from service import NAME

_CODES: Mapping[int, str] = MappingProxyType(
    {
        0: "done",
        2: "the command line or the configuration is wrong",
        3: "a server does not answer",
        4: "--wait ran out of time before everything had ended",
        130: "interrupted from the keyboard",
    }
)
"""All but 1, whose meaning is each verb's own."""

_FOUND, _ALL = "nothing is found", "not all of it could be done"
_SOME = "nothing, or not all, was done"


class Usage(NamedTuple):
    """How a verb is used.

    `examples` are command lines behind the program's name. `negative` says what exit code 1 means,
    "" where it is not given. `asks`: it needs servers; `waits`: it has --wait.
    """

    examples: tuple[str, ...]
    negative: str = ""
    asks: bool = True
    waits: bool = False


USAGES: Mapping[str, Usage] = MappingProxyType(
    {
        "run": Usage(("run", "--config /etc/tracker.toml run"), "it stopped by itself"),
        "demo": Usage(("demo",), "a figure is not what was promised", asks=False),
        "put": Usage(
            (
                "put usps 9405903699300184125060 --wait 30s",
                "put --csv orders.csv --slug dpd --skip-bad",
            ),
            "a request was malformed, or ended without an answer",
            waits=True,
        ),
        "ingest": Usage(("ingest",), "it stopped by itself"),
        "api": Usage(("api",), "it stopped by itself"),
        "recover": Usage(("recover door.log", "recover --redis --dry-run"), _ALL),
        "account add": Usage(("account add acme",)),
        "account list": Usage(("account list --json",)),
        "account remove": Usage(("account remove acme --yes",), "it was not agreed to"),
        "account suspend": Usage(('account suspend acme --reason "unpaid since May"',)),
        "account resume": Usage(("account resume acme",)),
        "account set": Usage(
            ("account set acme alerts=ops@acme.example", "account set acme calls_a_day=5000")
        ),
        "account test-mail": Usage(("account test-mail acme",), "no server took the mail"),
        "key add": Usage(
            ("key add main --scope ingest,read", "key add acme --scope read --ends 90d")
        ),
        "key list": Usage(("key list acme",)),
        "key revoke": Usage(("key revoke tk_0123456789ab",)),
        "key rotate": Usage(("key rotate tk_0123456789ab --keep 1h",)),
        "user add": Usage(
            ("user add --first", "user add anna@example.com --account acme --role owner")
        ),
        "user list": Usage(("user list acme --json",)),
        "user invite": Usage(("user invite ben@example.com --role member --mail",)),
        "user role": Usage(("user role ben@example.com owner",)),
        "user remove": Usage(("user remove ben@example.com --yes",), "it was not agreed to"),
        "user sign-out": Usage(("user sign-out ben@example.com",)),
        "user password-link": Usage(("user password-link anna@example.com",)),
        "service add": Usage(("service add orders https://shop.example/hooks",)),
        "service list": Usage(("service list",)),
        "service show": Usage(("service show orders",)),
        "service set": Usage(("service set orders --per-second 5 --attempts 6",)),
        "service pause": Usage(("service pause orders",)),
        "service resume": Usage(("service resume orders",)),
        "service remove": Usage(("service remove orders --yes",), "it was not agreed to"),
        "service rotate": Usage(("service rotate orders",)),
        "service test": Usage(("service test orders",), "the destination did not take it"),
        "service key": Usage(("service key",), asks=False),
        "service seal": Usage(("service seal",), _ALL),
        "delivery list": Usage(("delivery list --service orders --state dead --since 2d",)),
        "delivery show": Usage(("delivery show DELIVERY",), _FOUND),
        "delivery resend": Usage(("delivery resend --service orders --since 2d",), _SOME),
        "delivery cancel": Usage(("delivery cancel --service orders --until 2d",), _SOME),
        "inbox list": Usage(
            (
                "inbox list --service shopify --state dead --since 2d",
                'inbox list --words "orders/create 820982911946154508"',
            )
        ),
        "inbox show": Usage(("inbox show REQUEST",), _FOUND),
        "inbox resend": Usage(("inbox resend REQUEST",), _SOME),
        "inbox edit": Usage(
            ("inbox edit REQUEST --target '/orders?shop=2' --body-file body.json",), _FOUND
        ),
        "inbox delete": Usage(("inbox delete REQUEST --yes",), _SOME),
        "show": Usage(("show usps 9405903699300184125060", "show --id order-1042"), _FOUND),
        "detect": Usage(("detect 1Z12345E0205271688",), "no courier has such numbers", asks=False),
        "cancel": Usage(
            ("cancel usps 9405903699300184125060", "cancel --slug usps --older-than 2h --yes"),
            _SOME,
        ),
        "resend": Usage(
            ("resend usps 9405903699300184125060", "resend --reason courier_down --since 2d --yes"),
            _SOME,
        ),
        "pause": Usage(('pause usps --for 15m --why "maintenance until noon"',)),
        "resume": Usage(("resume usps",), "it was not paused"),
        "limits show": Usage(("limits show usps",)),
        "limits set": Usage(("limits set usps per_second=5 concurrent=10",), "no worker knows yet"),
        "limits reset": Usage(("limits reset usps",), "no worker knows yet"),
        "forget": Usage(("forget usps 9405903699300184125060 --yes",), _SOME),
        "purge": Usage(("purge --dry-run",), _ALL),
        "info": Usage(("info --watch", "info usps")),
        "list": Usage(("list --tag Exception --age 2d", "list --search order-1042 --json"), _FOUND),
        "events": Usage(("events usps --status ERROR", "events --json")),
        "stats": Usage(("stats usps --last 24h",), "nothing happened in that time"),
        "proof": Usage(("proof", "proof --json"), "a limit was broken, or a request is missing"),
        "dead list": Usage(("dead list --slug usps --reason courier_down",)),
        "dead show": Usage(("dead show RECORD",), _FOUND),
        "dead kick": Usage(("dead kick --reason courier_down --yes",), _SOME),
        "dead delete": Usage(("dead delete --reason bad_number --yes",), _SOME),
        "reparse": Usage(("reparse --slug usps --dry-run",), "an answer still cannot be read"),
        "check": Usage(("check",), "something is wrong"),
        "doctor": Usage(
            ("doctor", "doctor usps", "doctor usps --try 9405903699300184125060"),
            "something is wrong",
            waits=True,
        ),
        "config show": Usage(("config show",), asks=False),
        "completion": Usage(("completion bash", "completion zsh"), asks=False),
    }
)
"""By verb, or verb and action."""


def epilog(prog: str) -> str:
    """Write the end of a verb's `--help`; of the whole program's, where no verb is named."""
    usage = USAGES.get(prog.removeprefix(NAME).strip())
    lines = [] if usage is None else ["example:", *(f"  {NAME} {each}" for each in usage.examples)]
    codes = dict(_CODES)
    if usage is None:
        codes[1] = "a negative finding: not found, failed, or not all of it done"
    elif usage.negative:
        codes[1] = usage.negative
    if usage and not usage.asks:
        del codes[3]
    if usage and not usage.waits:
        del codes[4]
    lines += ["", "exit codes:"] if lines else ["exit codes:"]
    return "\n".join([*lines, *(f"  {code:<4} {codes[code]}" for code in sorted(codes))]) + "\n"
