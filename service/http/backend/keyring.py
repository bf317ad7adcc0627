"""The keys that a door knows: read from MongoDB again and again, and kept in a file beside it.

Beside them it has the quotas of accounts, and what a door must know of relays: the key of ingest
labels, and how services take requests. One whose label is younger than the last look is saved all
the same.

While MongoDB is away those of the file count; all doors of a machine share it. A revoked key works
until the next look, LOOK_SECONDS later at most while MongoDB answers. Slugs need no such copy:
they stand in the configuration, which each process reads when it starts.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import msgspec
from pymongo.errors import PyMongoError

from service.config.schema import Config
from service.observe.events import Event
from service.observe.log import emit
from service.operator import connections
from service.operator.accounts import read_key
from service.operator.ingest_labels import ingests_of, key_in
from service.operator.keys import Key, Keys, keys_of
from service.worker.results.account_quotas import read_quotas
from service.worker.results.database import Collections, names_of, open_client
from service.worker.results.failure import mongodb_down
from service.worker.results.queries import suspended_accounts
from tracking.errors import StoreError

T = TypeVar("T")

APP_NAME = "keyring"
"""What MongoDB's own log and profile call the connection, which reads at all times."""

LOOK_SECONDS = 5.0

_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
_read = msgspec.json.Decoder(Keys).decode


class KeysDown(StoreError):
    """The file of the keys cannot be written: a door that starts while MongoDB is away needs it."""


class Keyring:
    """For one event loop. `keys` are the newest that are known."""

    def __init__(self, config: Config, file: Path) -> None:
        self.keys = Keys()
        self._file = file
        self._in_file: Keys | None = None
        self._names = names_of(config)
        self._stores: Collections | None = None
        self._thread = ThreadPoolExecutor(1, "keys")
        self._error = ""
        self._read_file()

    def find(self, text: str) -> Key | None:
        """Recognize a key that works now."""
        return self.keys.find(text, time.time())

    async def look(self) -> None:
        """Look once. Raises ResultsDown, and then what was known counts on; KeysDown."""
        loop = asyncio.get_running_loop()
        self.keys = await loop.run_in_executor(self._thread, lambda: self._asking(_look))
        if self.keys != (self._in_file or Keys()):
            await loop.run_in_executor(self._thread, self._write_file, self.keys)

    async def ask(self, step: Callable[..., T], *args: object) -> T:
        """Ask MongoDB something else. Raises ResultsDown."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, lambda: self._asking(step, *args))

    async def keep_fresh(self) -> None:
        """Look again and again; never returns."""
        while True:
            try:
                await self.look()
            except StoreError as error:
                if not self._error:
                    emit(Event.KEYS_STALE, error=error.message, fix=error.fix)
                self._error = error.message
            else:
                if self._error:
                    emit(Event.KEYS_FRESH)
                self._error = ""
            await asyncio.sleep(LOOK_SECONDS)

    async def close(self) -> None:
        """End the connections."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        if self._stores:
            await asyncio.to_thread(self._stores.client.close)

    def _asking(self, step: Callable[..., T], *args: object) -> T:
        try:
            if self._stores is None:
                client = open_client(
                    self._names.uri,
                    appname=APP_NAME,
                    timeoutMS=connections.PATIENCE_MS,
                    serverMonitoringMode="poll",
                )
                self._stores = Collections(client, self._names)
            return step(self._stores, *args)
        except PyMongoError as error:
            raise mongodb_down(error) from error

    def _read_file(self) -> None:
        try:
            self.keys = self._in_file = _read(self._file.read_bytes())
        except FileNotFoundError:
            return
        except (OSError, ValueError) as error:
            emit(Event.KEYS_STALE, error=f"{self._file} cannot be read ({error})", fix="")

    def _write_file(self, keys: Keys) -> None:
        """Replace it at once as a whole; only its owner reads it."""
        made = self._file.with_name(f"{self._file.name}.{os.getpid()}")
        try:
            with os.fdopen(os.open(made, _NEW_FILE, 0o600), "wb") as file:
                file.write(msgspec.json.encode(keys))
                file.flush()
                os.fsync(file.fileno())
            made.replace(self._file)
        except OSError as error:
            what = f"the keys cannot be kept in {self._file} ({error.strerror})"
            raise KeysDown(what, "Correct ingest.keys.") from error
        self._in_file = keys


def _look(stores: Collections) -> Keys:
    found, ingests = list(stores.keys.find()), ingests_of(stores)
    known = keys_of(key for each in found for key in read_key(each)).known
    of_accounts = read_quotas(stores.accounts), suspended_accounts(stores.accounts)
    return Keys(known, b"".join(map(key_in, found)), ingests, *of_accounts)
