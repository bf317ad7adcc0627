"""The proof, for strangers too where `[web] public_proof` says so: a page, its JSON and its key."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

from aiohttp import web

from service.operator.connections import in_thread
from service.operator.keys import Scope
from service.operator.proof import Proof, members, proof_in, public_key, signed
from service.web.board import Board
from service.web.frame import Answer, Page, moving
from service.web.visitors import Kept, Visitor

PROOF_SECONDS = 5.0
"""How long a proof serves: everybody may ask, and what was measured is written every 10 s."""


class ProofPages:
    """The proof in three forms, without a name of an account, a number or a destination."""

    def __init__(self, board: Board, *, public: bool) -> None:
        self._board = board
        self._kept = Kept()
        self._scope = None if public else Scope.READ
        self._operators = not public

    def pages(self) -> list[Page]:
        """Name them."""
        scope, operators = self._scope, self._operators
        return [
            *moving("/proof", "proof/proof", self._values, scope, operators=operators),
            Page("GET", "/proof.json", self._json, scope, operators),
            Page("GET", "/proof.key", self._key, scope, operators),
        ]

    async def _values(self, _: web.Request, __: Visitor) -> Mapping[str, Any]:
        found = await self._proof()
        return {"found": found, "calls": found.measured, "operations": found.balance}

    async def _json(self, _: web.Request, __: Visitor) -> Answer:
        """Give it to machines. Raises StoreError."""
        text = json.dumps(await self._signed(), indent=1)
        return web.Response(text=f"{text}\n", content_type="application/json")

    async def _key(self, _: web.Request, __: Visitor) -> Answer:
        """Give the key that checks its signature. Raises StoreError."""
        ask = partial(in_thread, public_key, self._board.stores)
        text = await self._kept.get("key", PROOF_SECONDS, ask)
        return web.Response(text=text, content_type="text/plain")

    async def _proof(self) -> Proof:
        ask = partial(proof_in, self._board.operators.view, self._board.catalogue.slugs)
        return await self._kept.get("proof", PROOF_SECONDS, ask)

    async def _signed(self) -> Mapping[str, Any]:
        """Sign it: the same figures for as long."""
        said = members(await self._proof())
        ask = partial(in_thread, signed, self._board.stores, said)
        return await self._kept.get("signed", PROOF_SECONDS, ask)
