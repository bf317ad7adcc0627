"""The users of an account, as its owners keep them: invited, given another role, removed."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus

from aiohttp import web

from service.http.exchange import Problem
from service.operator import users
from service.operator.attempts import Attempt, TooOften, count_attempt
from service.operator.connections import in_thread
from service.operator.invitations import (
    Purpose,
    address_of,
    invite,
    invited,
    mail_link,
    password_link,
    withdraw,
)
from service.operator.users import Role, User
from service.web.frame import Answer, Page, see_other
from service.web.settings import OWNERS, ask, show
from service.web.visitors import Visitor, Visitors, fields_of
from service.web.writing import part
from tracking.errors import NotDone

USERS = "/settings/users"

ROLES = {
    Role.VIEWER: "sees parcels, and what becomes of them",
    Role.MEMBER: "also follows parcels and makes secret links",
    Role.OWNER: "also keeps users, keys, webhooks and settings",
}
"""What each role may do."""


class UserPages:
    """For one event loop."""

    def __init__(self, visitors: Visitors) -> None:
        self._visitors = visitors
        self._config = visitors.config
        self._stores = visitors.stores

    def pages(self) -> list[Page]:
        """Name them."""
        one, invitation = f"{USERS}/{{email}}", "/settings/invitations/{email}/withdraw"
        return [
            Page("GET", USERS, self._list, OWNERS),
            Page("POST", USERS, self._invite, OWNERS),
            Page("POST", invitation, self._withdraw, OWNERS),
            Page("GET", one, self._show_one, OWNERS),
            Page("POST", f"{one}/role", self._set_role, OWNERS),
            Page("POST", f"{one}/sign-out", self._sign_out, OWNERS),
            Page("POST", f"{one}/password", self._give_link, OWNERS),
            Page("GET", f"{one}/remove", self._ask_to_remove, OWNERS),
            Page("POST", f"{one}/remove", self._remove, OWNERS),
        ]

    async def _list(
        self, _: web.Request, visitor: Visitor, email: str = "", wrong: str = ""
    ) -> Answer:
        asked = (self._stores, visitor.account)
        return show(
            "users",
            users=await in_thread(users.users, *asked),
            invited=await in_thread(invited, *asked),
            roles=ROLES,
            has_mail=bool(self._config.mail.host),
            email=email,
            wrong=wrong,
        )

    async def _invite(self, request: web.Request, visitor: Visitor) -> Answer:
        """Invite somebody: the link goes by mail, or is shown this once."""
        form, account = await fields_of(request), visitor.account
        by_mail = form["by"] == "mail" and bool(self._config.mail.host)
        try:
            email, role = users.email_of(form["email"]), _role(form["role"])
            await in_thread(count_attempt, self._stores, Attempt.INVITE, account)
            invitation = (self._stores, visitor.operator, email, account, role)
            token = await in_thread(invite, *invitation)
        except TooOften:
            raise
        except NotDone as error:
            return await self._list(request, visitor, form["email"], f"{error}")
        if by_mail:
            mail = (self._stores, self._config, Purpose.INVITE, email, token)
            await in_thread(mail_link, *mail)
            return see_other(USERS, done=f"{email} is sent an invitation, which lasts 24 hours.")
        what = f"An invitation for {email}, as {role} of {account}"
        return show("user_link", what=what, url=address_of(self._config, token))

    async def _withdraw(self, request: web.Request, visitor: Visitor) -> Answer:
        email = request.match_info["email"]
        asked = (self._stores, visitor.operator, visitor.account, email)
        if not await in_thread(withdraw, *asked):
            raise Problem(HTTPStatus.NOT_FOUND, "there is no such invitation: it may be used")
        return see_other(USERS, done=f"The invitation of {email} is withdrawn.")

    async def _show_one(self, request: web.Request, visitor: Visitor) -> Answer:
        user = await self._user(request, visitor)
        return show("user", user=user, roles=ROLES)

    async def _set_role(self, request: web.Request, visitor: Visitor) -> Answer:
        role = _role((await fields_of(request))["role"])
        user = await self._act(request, visitor, users.set_role, role)
        is_own = user.email == visitor.email  # who is no owner any more sees no users
        return see_other("/settings" if is_own else USERS, done=f"{user.email} is {role} now.")

    async def _sign_out(self, request: web.Request, visitor: Visitor) -> Answer:
        user = await self._act(request, visitor, users.sign_out)
        return see_other(USERS, done=f"All sessions of {user.email} have ended.")

    async def _give_link(self, request: web.Request, visitor: Visitor) -> Answer:
        """Show a link by which a user chooses a new password."""
        user = await self._user(request, visitor)
        token = await in_thread(password_link, self._stores, visitor.operator, user.email)
        what = f"A link by which {user.email} chooses a new password"
        return show("user_link", what=what, url=address_of(self._config, token))

    async def _ask_to_remove(self, request: web.Request, visitor: Visitor) -> Answer:
        user = await self._user(request, visitor)
        one = f"{USERS}/{part(user.email)}"
        what = f"All sessions of {user.email} end. The keys and links of the account stay."
        return ask(f"Remove {user.email}?", what, "Remove the user", one)

    async def _remove(self, request: web.Request, visitor: Visitor) -> Answer:
        user = await self._act(request, visitor, users.remove_user)
        return see_other(USERS, done=f"{user.email} is removed.")

    async def _act(
        self,
        request: web.Request,
        visitor: Visitor,
        act: Callable[..., None],
        *more: Role,
    ) -> User:
        """Act on the visitor's user that the path names; open pages notice. Raises Problem."""
        user = await self._user(request, visitor)
        await in_thread(act, self._stores, visitor.operator, user.email, *more)
        self._visitors.forget()
        return user

    async def _user(self, request: web.Request, visitor: Visitor) -> User:
        found = await in_thread(users.find_user, self._stores, request.match_info["email"])
        if found is None or found.account != visitor.account:
            raise Problem(HTTPStatus.NOT_FOUND, "there is no such user")
        return found


def _role(text: str) -> Role:
    """Read a role that was chosen. Raises NotDone."""
    if text not in [*Role]:
        raise NotDone("choose a role")
    return Role(text)
