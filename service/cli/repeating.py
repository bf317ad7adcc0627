"""The arguments of `dead` and `resend`. Imports nothing of weight, so that `--help` is instant."""

from __future__ import annotations

from service.cli.arguments import Verbs, a_verb, from_one_on, named, offer_json
from service.cli.pausing import aged


def offer_resend(verbs: Verbs) -> None:
    """Add the verb."""
    made = a_verb(
        verbs,
        "resend",
        "Ask again, now, for requests that are dead or have ended: each as a new request.",
    )
    made.add_argument("slug", type=named, nargs="?", metavar="SLUG", help="the courier")
    made.add_argument(
        "number",
        type=named,
        nargs="?",
        metavar="NUMBER",
        help="what is dead of this number, or ended last",
    )
    made.add_argument("--id", type=named, help="the newest request with this id, dead or ended")
    made.add_argument(
        "--reason", type=named, help="all that are dead with this reason; with SLUG: of it only"
    )
    made.add_argument(
        "--since",
        type=aged,
        metavar="DURATION",
        help="all that died in the last 15m, 2h or 3d; with SLUG or --reason: of these only",
    )
    made.add_argument("--dry-run", action="store_true", help="list what is meant, put nothing")
    made.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    offer_json(made)


def offer_dead(verbs: Verbs) -> None:
    """Add the verb."""
    made = a_verb(verbs, "dead", "List, show, put again or delete requests that got no answer.")
    actions = made.add_subparsers(title="actions", metavar="ACTION", required=True)
    texts = {
        "list": "List records, newest first.",
        "show": "Show all of one record.",
        "kick": "Put the requests again, then delete their records.",
        "delete": "Delete records and their buried jobs.",
    }
    for action, text in texts.items():
        each = a_verb(actions, action, text, module="dead")
        each.set_defaults(action=action)
        if action == "show":
            each.add_argument("ids", nargs=1, metavar="ID")
        else:
            each.add_argument("--slug", type=named, help="only requests for this courier")
            each.add_argument("--reason", type=named, help="only with this reason")
        if action == "list":
            each.add_argument(
                "--limit", type=from_one_on, default=50, help="at most this many; default: 50"
            )
        if action in {"kick", "delete"}:
            each.add_argument("ids", nargs="*", metavar="ID")
            each.add_argument("--all", action="store_true", help="every record")
            each.add_argument("--yes", action="store_true", help="do not ask for confirmation")
        offer_json(each)
    text = "List buried jobs that no record names."
    orphans = a_verb(actions, "orphans", text, module="orphans")
    orphans.add_argument("--record", action="store_true", help="record them, for kick and delete")
    offer_json(orphans)
