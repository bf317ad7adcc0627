"""Requests that no beanstalkd takes, in one file that all doors of a machine share.

SQLite with a write-ahead log, synced at the end of each transaction. A write that was torn, by a
kill or by the end of the power, is as if it had not been begun; nothing of it was confirmed. They
are written on standard output too: a second copy, wherever logs are kept.
"""

from __future__ import annotations

import base64
import fcntl
import os
import select
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from service import PROGRAM
from service.observe.log import LINE_MOST
from service.operator.catalogue import Catalogue
from service.operator.put import Bad, Sendable
from service.worker.tubes.envelope import decode_request, encode_payload
from service.worker.tubes.payload import read_strictly
from tracking.errors import MalformedJob, SpoolDown

MEMORY = frozenset({"tmpfs", "ramfs", "devtmpfs"})
"""File systems that forget everything when the machine restarts."""

NETWORK = frozenset({"nfs", "nfs4", "cifs", "smb3"})
"""File systems on which the processes of SQLite's write-ahead log cannot share memory."""

MOUNTS = Path("/proc/self/mountinfo")

PATIENCE_SECONDS = 5.0
"""How long another process may hold the file."""

PAGE_BYTES = 4_096
_MIB = 1 << 20

READ_BYTES = 8 * _MIB
"""Bytes of requests that are read, and put, at once."""

SPARE_BYTES = 4 * _MIB
"""Of the disk, beside what the log has not brought into the file yet: a deletion writes, too."""

_PASSING = frozenset({"SQLITE_FULL", "SQLITE_BUSY", "SQLITE_LOCKED"})
"""What says nothing about the file itself."""

_LOCK = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC

_TABLE = (
    "CREATE TABLE IF NOT EXISTS jobs (id INTEGER PRIMARY KEY AUTOINCREMENT, body BLOB NOT NULL)"
)


class Spooled(NamedTuple):
    """One request in the spool: larger ids are newer."""

    id: int
    body: bytes


class Spool:
    """The file, opened when it is first used. For one thread; its methods raise SpoolDown.

    After an error of its disk it is opened and checked again: nothing in memory is trusted then.
    """

    def __init__(self, path: Path, most_mib: int) -> None:
        self.path = path
        self._most_pages = most_mib * _MIB // PAGE_BYTES
        self._database: sqlite3.Connection | None = None

    def add(self, bodies: Sequence[bytes]) -> None:
        """Keep requests: all of them are on the disk when this returns, or none is kept."""
        with self._open() as database:
            database.execute("BEGIN IMMEDIATE")  # so that no other door takes the room meanwhile
            self._insist_on_room(database, sum(map(len, bodies)))
            database.executemany("INSERT INTO jobs (body) VALUES (?)", ((body,) for body in bodies))
            database.execute("COMMIT")

    def oldest(self, most: int, after: int = 0) -> list[Spooled]:
        """Read requests with ids above `after`, oldest first: so many, or READ_BYTES of them."""
        found: list[Spooled] = []
        size = 0
        with self._open() as database:
            asked = "SELECT id, body FROM jobs WHERE id > ? ORDER BY id LIMIT ?"
            with closing(database.execute(asked, (after, most))) as rows:
                for row in rows:
                    found.append(Spooled(*row))
                    size += len(found[-1].body)
                    if size >= READ_BYTES:
                        break
        return found

    def delete(self, ids: Sequence[int]) -> None:
        """Let go of requests that are put."""
        if not ids:
            return
        with self._open() as database:
            database.execute("BEGIN IMMEDIATE")
            database.executemany("DELETE FROM jobs WHERE id = ?", ((each,) for each in ids))
            database.execute("COMMIT")
            if not database.execute("SELECT 1 FROM jobs LIMIT 1").fetchone():
                _give_back(database)

    def insist_on_room(self) -> None:
        """Raises SpoolDown where it takes no request now."""
        with self._open() as database:
            self._insist_on_room(database, 1)

    def count(self) -> int:
        """Count the requests in the spool."""
        with self._open() as database:
            [(found,)] = database.execute("SELECT count(*) FROM jobs")
            return int(found)

    @contextmanager
    def alone(self) -> Iterator[bool]:
        """Try to become the only door that empties the spool, for the `with` block; gives whether.

        Two that do so at once would put everything twice.
        """
        try:
            descriptor = os.open(self.path.with_name(f"{self.path.name}.lock"), _LOCK, 0o600)
        except OSError as error:
            raise self._down(error) from error
        try:
            yield _locked(descriptor)
        finally:
            os.close(descriptor)

    def close(self) -> None:
        """Close the file."""
        if self._database is not None:
            self._database.close()
            self._database = None

    def _insist_on_room(self, database: sqlite3.Connection, size: int) -> None:
        """Raise as SQLite does on a full disk, as long as a deletion still finds room on it.

        A deletion on a full one is refused, so that the spool would never empty again.
        """
        pages, free = (_number(database, name) for name in ("page_count", "freelist_count"))
        in_log = max(0, pages * PAGE_BYTES - self.path.stat().st_size)
        written = 2 * size  # a body that is larger than a page may leave half of another one empty
        grows = max(0, written - free * PAGE_BYTES)
        disk = os.statvfs(self.path)
        room = disk.f_bavail * disk.f_frsize - in_log - grows - written
        if room < SPARE_BYTES or (pages >= self._most_pages and not free):
            error = sqlite3.OperationalError("no room beside what deletions need")
            error.sqlite_errorname = "SQLITE_FULL"
            raise error

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            if self._database is None:
                self._database = self._opened()
            yield self._database
        except (sqlite3.Error, OSError) as error:
            self._undo(error)
            raise self._down(error) from error

    def _undo(self, error: Exception) -> None:
        database, self._database = self._database, None
        if database is None:
            return
        with suppress(sqlite3.Error):
            if getattr(error, "sqlite_errorname", "") in _PASSING:
                if database.in_transaction:
                    database.execute("ROLLBACK")
                self._database = database
            else:
                database.close()

    def _opened(self) -> sqlite3.Connection:
        # Only its owner reads it: numbers and postal codes are somebody's.
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        made = sqlite3.connect(
            self.path, PATIENCE_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            made.execute("PRAGMA journal_mode = WAL")
            made.execute("PRAGMA synchronous = FULL")
            _check(made)
            made.execute(f"PRAGMA max_page_count = {self._most_pages}")
            made.execute(_TABLE)
        except BaseException:
            made.close()
            raise
        return made

    def _down(self, error: sqlite3.Error | OSError) -> SpoolDown:
        return SpoolDown(*_told(self.path, error))


def _number(database: sqlite3.Connection, pragma: str) -> int:
    [(found,)] = database.execute(f"PRAGMA {pragma}")
    return int(found)


def _give_back(database: sqlite3.Connection) -> None:
    """Give the room of an empty spool back to its disk, where it is worth it."""
    if _number(database, "freelist_count") * PAGE_BYTES < _MIB:
        return
    with suppress(sqlite3.OperationalError):  # another door adds just now
        database.execute("VACUUM")
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _check(database: sqlite3.Connection) -> None:
    """Raise where a page is damaged: what is added behind one could not be read again."""
    [found] = database.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise sqlite3.DatabaseError(found.splitlines()[-1])


def unfit(path: Path, mounts: Path = MOUNTS) -> str:
    """Say why the spool must not lie at `path`, and what to do; "" where it may."""
    folder = path.parent
    if not os.path.isdir(folder):  # noqa: PTH112 - of a folder that may not be read pathlib raises
        return f"there is no folder {folder}: make it, or set ingest.spool to another path"
    kind = _file_system(folder, mounts)
    if kind in MEMORY:
        return (
            f"{folder} is a {kind}, which a restart empties: set ingest.spool to a path on a disk"
        )
    if kind in NETWORK:
        why = "SQLite's log needs a disk of this machine"
        return f"{folder} is on {kind}, but {why}: set ingest.spool to a path on one"
    return _kept_from(path)


def _kept_from(path: Path) -> str:
    """Say what of the spool this user may not write; "" where nothing is."""
    needed = [
        path.parent,
        *(path.with_name(path.name + end) for end in ("", "-wal", "-shm", ".lock")),
    ]
    for each in needed:
        if each.exists() and not os.access(each, os.R_OK | os.W_OK):
            who = f"the user {os.getuid()}, which runs this, may not write {each}"
            return f"{who}: give it that right (chown), or set ingest.spool to another path"
    return ""


def _told(path: Path, error: sqlite3.Error | OSError) -> tuple[str, str]:
    name = getattr(error, "sqlite_errorname", "")
    if name == "SQLITE_FULL":
        return f"the spool {path} is full", "Free some of the disk, or raise ingest.spool_mib."
    if name in {"SQLITE_BUSY", "SQLITE_LOCKED"}:
        return f"the spool {path} is held by another process", "Look who holds it."
    if isinstance(error, OSError):
        return f"the spool {path} cannot be opened ({error.strerror})", "Correct ingest.spool."
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")) or type(error) is sqlite3.DatabaseError:
        fix = (
            "Stop the doors, move the file away, start them, and put what it held out of their "
            f"saved output: {PROGRAM} recover FILE."
        )
        return f"the spool {path} is damaged ({error})", fix
    return f"the spool {path} cannot be used ({error})", "Look at its disk."


def _file_system(folder: Path, mounts: Path) -> str:
    """Name the kind of file system that a folder lies on; "" where nobody tells."""
    number = folder.stat().st_dev
    device = f"{os.major(number)}:{os.minor(number)}"
    try:
        lines = mounts.read_text().splitlines()
    except OSError:
        return ""
    for fields in map(str.split, lines):
        if fields[2] == device:
            return fields[fields.index("-") + 1]
    return ""


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


MARK, RELAYED_MARK = b'{"spooled":', b'{"relayed":'
"""What such lines begin with; a log's own prefix may stand before it. A relayed request is its job,
in base64."""

STUCK_MS = 1_000
"""How long the reader of standard output may take nothing before lines are given up."""


def write_lines(bodies: Iterable[bytes], descriptor: int = 1) -> bool:
    """Write a line for each job, whole; false where nobody takes them, and some were left out."""
    return _write((b"%b%b}\n" % (MARK, body) for body in bodies), descriptor)


def write_relayed_lines(jobs: Iterable[bytes], descriptor: int = 1) -> bool:
    """Write a line for each job of a relayed request, as `write_lines` does."""
    lines = (b'%b"%b"}\n' % (RELAYED_MARK, base64.b64encode(job)) for job in jobs)
    return _write(lines, descriptor)


def _write(lines: Iterable[bytes], descriptor: int) -> bool:
    waiting = select.poll()
    waiting.register(descriptor, select.POLLOUT)
    for piece in _pieces(lines):
        left = piece
        while left:
            try:
                if not waiting.poll(STUCK_MS):
                    return False
                left = left[os.write(descriptor, left[:LINE_MOST]) :]
            except OSError:
                return False
    return True


class Relayed(NamedTuple):
    """A relayed request of saved output: what is put of it, under its id."""

    id: str
    label: str
    body: bytes


def saved_in(
    lines: Iterable[bytes], name: str, catalogue: Catalogue
) -> Iterator[Sendable | Relayed | Bad]:
    """Find the requests in saved output; all its other lines are passed over."""
    for index, line in enumerate(lines, start=1):
        start, relayed = line.find(MARK), line.find(RELAYED_MARK)
        try:
            if start >= 0:
                yield _request_in(line[start:].rstrip(), index, catalogue)
            elif relayed >= 0:
                yield _relayed_in(line[relayed:].rstrip())
        except (
            MalformedJob,
            ValueError,
            RecursionError,
            LookupError,
            TypeError,
            AttributeError,
        ) as e:
            why = e.detail if isinstance(e, MalformedJob) else "the line is not whole"
            yield Bad(f"{name}:{index}", why)


def _request_in(line: bytes, index: int, catalogue: Catalogue) -> Sendable:
    job = read_strictly(line)["spooled"]
    body = encode_payload(job["payload"], job.get("meta") or {})
    request = decode_request(body, catalogue.resolve)
    return Sendable(request.id or "", request.slug, request.number, body, index)


def _relayed_in(line: bytes) -> Relayed:
    # It brings MongoDB's driver, which who puts nothing to relays does not need.
    from service.worker.deliveries.foreign_request import decode_foreign  # noqa: PLC0415 - as above

    job = base64.b64decode(read_strictly(line)["relayed"], validate=True)
    request = decode_foreign(job)
    return Relayed(request.id, str(request.label), job)


def _pieces(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Join lines to what a pipe takes whole: other processes write to it too."""
    piece = b""
    for line in lines:
        if piece and len(piece) + len(line) > LINE_MOST:
            yield piece
            piece = b""
        piece += line
    if piece:
        yield piece
