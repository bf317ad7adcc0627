"""A reserved job, as the event loop holds it."""

from __future__ import annotations

import asyncio
import hashlib
from base64 import urlsafe_b64encode
from collections.abc import Callable
from contextlib import suppress

from service.ports import Job
from service.tubes.client import Reservation
from service.tubes.commands import Reply, Verb
from service.tubes.envelope import Knows, decode_drain, decode_request, needs_age
from service.tubes.naming import Resolve
from tracking.errors import TubesDown
from tracking.line import Line
from tracking.request import TrackingRequest

KEY_BYTES = 12
"""96 bits: 16 characters, and no two jobs will ever share them."""


async def request_in(job: Job, resolve: Resolve) -> TrackingRequest:
    """Read a job of the tube `requests_flow`.

    Raises MalformedJob, or TubesDown when the job is not ours any more.
    """
    age = await job.age() if needs_age(job.body) else 0.0
    return decode_request(job.body, resolve, age)


def line_in(job: Job, resolve: Resolve, knows: Knows) -> Line:
    """Read a job of the tube `wait_list`. Raises MalformedJob, UnknownLine."""
    return decode_drain(job.body, resolve, knows)


class ReservedJob:
    """One job that this worker holds; touched for us until it is settled.

    It must be settled, once, by `delete`, `bury` or `release`, or nobody else ever gets it. Later
    ones do nothing. All do nothing to a job whose connection has ended (`lost`): somebody else has
    it by then.
    """

    __slots__ = ("_key", "_leave", "_reservation", "_secret", "_settled")

    def __init__(
        self,
        reservation: Reservation,
        leave: Callable[[], None],
        secret: bytes,
    ) -> None:
        """`leave` gives back the room that the job takes, before it is settled."""
        self._reservation = reservation
        self._leave = leave
        self._secret = secret
        self._key = ""
        self._settled = False

    @property
    def key(self) -> str:
        """Stable over redeliveries of this job; 16 URL-safe characters that tell nothing."""
        if not self._key:
            name = f"{self._reservation.client.instance}:{self.id}".encode()
            digest = hashlib.blake2b(name, digest_size=KEY_BYTES, key=self._secret).digest()
            self._key = urlsafe_b64encode(digest).decode()
        return self._key

    @property
    def server(self) -> str:
        """The beanstalkd it is on, "host:port"."""
        return self._reservation.client.server

    @property
    def id(self) -> int:
        """Its id on that server."""
        return self._reservation.id

    @property
    def body(self) -> bytes:
        """What was put, unread."""
        return self._reservation.body

    @property
    def lost(self) -> bool:
        """True once it is not ours any more: its TTR ran out, or its connection ended.

        What was done for it still counts; somebody will do it again.
        """
        return self._reservation.lost

    def admitted(self) -> None:
        """Give the job's room to another one; it is held and touched until it is settled."""
        if not self._reservation.roomless:
            self._reservation.roomless = True
            self._leave()

    def delete(self) -> asyncio.Future[Reply]:
        """Let go of the job, awaited or not. Also right for a lost one whose result is stored."""
        if self._settled:
            nothing = asyncio.get_running_loop().create_future()
            nothing.set_result(Reply.MISSING)
            return nothing
        self._settled = True
        return self._reservation.client.tell(Verb.DELETE, self._reservation)

    async def bury(self) -> None:
        """Set the job aside for a person, with the priority it had."""
        await self._settle(Verb.BURY)

    async def release(self) -> None:
        """Hand the job back, at once ready for others, with the priority it had."""
        await self._settle(Verb.RELEASE)

    async def age(self) -> float:
        """Ask for the seconds since the put. Raises TubesDown when the job is lost."""
        await self._reservation.client.read_facts([self._reservation])
        if self.lost:
            raise TubesDown(f"{self.server}: job {self.id} is not ours any more")
        return self._reservation.age

    async def _settle(self, verb: Verb) -> None:
        if self._settled:
            return
        self._settled = True
        job = self._reservation
        if job.priority is None:
            with suppress(TubesDown):  # then it goes to others with its connection
                await job.client.read_facts([job])
        await job.client.tell(verb, job)

    def __repr__(self) -> str:
        return f"<job {self.id} on {self.server}>"
