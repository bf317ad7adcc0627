"""`user`: the users of the pages, and the links by which they choose their passwords.

A link stands alone on standard output, so that it can be piped; nobody can read it again.
"""

from __future__ import annotations

from service import PROGRAM
from service.config import schema
from service.console import settings
from service.console.arguments import (
    Exit,
    Options,
    Parser,
    UsageError,
    account_of,
    add_account,
    add_actions,
    add_json,
    add_yes,
)
from service.console.output import agreed, moment, note, say, say_json, table, tell
from service.operator import audit, connections, invitations, users

ROLES = ("viewer", "member", "owner")


def user_arguments(parser: Parser) -> None:
    """Add the actions of `user`."""
    actions = {
        "add": ("Add a user, and print a link to choose a password by.", _add),
        "list": ("List the users, of all accounts or of one.", _list),
        "invite": ("Print or mail a link to become a user by, good once, for 24 hours.", _invite),
        "role": ("Give a user another role.", _role),
        "remove": ("Remove a user, which ends the sessions.", _remove),
        "sign-out": ("End all sessions of a user.", _sign_out),
        "password-link": ("Print a link to choose another password by, for 24 hours.", _password),
    }
    for action, each in add_actions(parser, actions, settings.on_stores).items():
        if action == "list":
            text = "only users of this account"
            each.add_argument("account", nargs="?", type=account_of, metavar="ACCOUNT", help=text)
        else:
            email = each.add_argument("email", metavar="EMAIL", help="the address of the user")
            email.nargs = "?" if action == "add" else None
        if action in {"add", "invite"}:
            _add_what_they_become(each)
        if action == "add":
            text = "print a link for the first owner of main, good once, for 30 minutes"
            each.add_argument("--first", action="store_true", help=text)
        if action == "invite":
            text = "send the link by the server of [mail], and print none"
            each.add_argument("--mail", action="store_true", help=text)
        if action == "role":
            each.add_argument("role", choices=ROLES, metavar="ROLE", help=", ".join(ROLES))
        if action == "remove":
            add_yes(each)
        add_json(each)


def _add_what_they_become(parser: Parser) -> None:
    add_account(parser, "the account, which is there")
    text = (
        "viewer reads; member also puts and cancels; owner also keeps services, keys and users, "
        "and an owner of main everything; default: viewer"
    )
    parser.add_argument("--role", choices=ROLES, default="viewer", metavar="ROLE", help=text)


def _add(options: Options, config: schema.Config, stores: connections.Collections) -> int:
    who = audit.Operator()
    if options.first == bool(options.email):
        raise UsageError("name the EMAIL of the user, or write --first for the first owner")
    if options.first:
        link = invitations.address_of(config, invitations.first_owner(stores, who))
        return _show(link, "for the first owner of main; it works once, for 30 minutes", options)
    email, role = users.email_of(options.email), users.Role(options.role)
    users.add_user(stores, who, users.new_user(email, options.account, role))
    link = invitations.address_of(config, invitations.password_link(stores, who, email))
    return _show(link, f"for {email} to choose a password; it works once, for 24 hours", options)


def _list(options: Options, _: schema.Config, stores: connections.Collections) -> int:
    found = users.users(stores, options.account)
    if options.json:
        for each in found:
            members = {"email": each.email, "account": each.account, "role": each.role}
            say_json(members | {"made_at": each.made_at})
        return Exit.DONE
    if not found:
        start = "invite EMAIL" if users.users(stores) else "add --first"
        say(f"there are no users; `{PROGRAM} user {start}` prints a link")
        return Exit.DONE
    rows = [(each.email, each.account, each.role, moment(each.made_at)) for each in found]
    table(("user", "account", "role", "added"), rows)
    return Exit.DONE


def _invite(options: Options, config: schema.Config, stores: connections.Collections) -> int:
    email, role = users.email_of(options.email), users.Role(options.role)
    if options.mail and not config.mail.host:
        raise UsageError("no server takes mails: set mail.host, or leave --mail out")
    token = invitations.invite(stores, audit.Operator(), email, options.account, role)
    if options.mail:
        invitations.mail_link(stores, config, invitations.Purpose.INVITE, email, token)
        words = f"an invitation goes to {email} by mail, as soon as a worker runs"
        return tell({"email": email, "mailed": True}, words, as_json=options.json)
    link = invitations.address_of(config, token)
    return _show(link, f"for {email}; it works once, for 24 hours", options)


def _role(options: Options, _: schema.Config, stores: connections.Collections) -> int:
    email, role = users.email_of(options.email), users.Role(options.role)
    users.set_role(stores, audit.Operator(), email, role)
    return tell({"email": email, "role": role}, f"{email} is {role} now", as_json=options.json)


def _remove(options: Options, _: schema.Config, stores: connections.Collections) -> int:
    email = users.email_of(options.email)
    if users.find_user(stores, email) and not agreed(f"Remove {email}?", yes=options.yes):
        return Exit.NEGATIVE
    users.remove_user(stores, audit.Operator(), email)
    return tell({"email": email, "removed": True}, f"{email} is removed", as_json=options.json)


def _sign_out(options: Options, _: schema.Config, stores: connections.Collections) -> int:
    email = users.email_of(options.email)
    users.sign_out(stores, audit.Operator(), email)
    words = f"all sessions of {email} have ended"
    return tell({"email": email, "signed_out": True}, words, as_json=options.json)


def _password(options: Options, config: schema.Config, stores: connections.Collections) -> int:
    email = users.email_of(options.email)
    token = invitations.password_link(stores, audit.Operator(), email)
    link = invitations.address_of(config, token)
    return _show(link, f"for {email}; it works once, for 24 hours", options)


def _show(link: str, what: str, options: Options) -> int:
    if options.json:
        say_json({"link": link})
        return Exit.DONE
    note(f"a link {what}; it is shown this once")
    say(link)
    return Exit.DONE
