"""Prints every parcel whose state changed, one JSON object per line, and remembers how far it read.

pip install pymongo
python examples/read_changes.py changes.json           # until Ctrl-C
python examples/read_changes.py changes.json --once    # what changed since the last time

It works on a standalone mongod, where change streams do not. `updated_at` is the moment at which
the courier was asked; the answer is stored up to a lease (60 s) later, so a later read may find
earlier documents. Each round therefore begins OVERLAP before the newest document it has seen, and
passes over what it has already printed. A reader that is killed prints a page twice, never not.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

try:
    import pymongo
except ModuleNotFoundError:
    sys.exit("pymongo is not installed: pip install pymongo")

OVERLAP = dt.timedelta(minutes=2)
PAGE = 1_000
PAUSE_SECONDS = 5.0
BEGINNING = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def pages(tracking: Any, since: dt.datetime) -> Iterator[list[dict[str, Any]]]:
    """Yield the documents that changed after `since`, oldest first, by the index on both keys."""
    at, name = since, ""
    while True:
        beyond = {"$or": [{"updated_at": {"$gt": at}}, {"updated_at": at, "_id": {"$gt": name}}]}
        # The range by itself lets MongoDB begin in the index where the page begins.
        # Documents of account `main` name none; those of others are theirs.
        query = {"updated_at": {"$gte": at}, "account": None, **beyond}
        page = list(tracking.find(query).sort([("updated_at", 1), ("_id", 1)]).limit(PAGE))
        if not page:
            return
        yield page
        at, name = page[-1]["updated_at"], page[-1]["_id"]


def read_on(tracking: Any, file: Path) -> None:
    """Print what changed since `file` was written, and write it again after each page."""
    kept = json.loads(file.read_text()) if file.exists() else {}
    newest = dt.datetime.fromisoformat(kept["newest"]) if kept else BEGINNING
    printed: dict[str, str] = kept.get("printed", {})
    for page in pages(tracking, max(newest - OVERLAP, BEGINNING)):
        for document in page:
            changed = document["updated_at"].isoformat()
            if printed.get(document["_id"]) != changed:
                print(json.dumps(document, default=str, ensure_ascii=False), flush=True)
                printed[document["_id"]] = changed
        newest = max(newest, page[-1]["updated_at"])
        oldest = (newest - OVERLAP).isoformat()
        printed = {name: changed for name, changed in printed.items() if changed >= oldest}
        # Renamed whole: a reader that is killed here finds the old file or the new one.
        unfinished = file.with_suffix(".new")
        unfinished.write_text(json.dumps({"newest": newest.isoformat(), "printed": printed}))
        unfinished.replace(file)


def main() -> None:
    """Read once, or until Ctrl-C."""
    names = [argument for argument in sys.argv[1:] if argument != "--once"]
    if len(names) != 1:
        sys.exit("usage: read_changes.py FILE [--once]; FILE remembers how far it has read")
    uri = os.environ.get("MONGODB_URI", "mongodb://127.0.0.1:27017")
    with pymongo.MongoClient(uri, tz_aware=True, serverSelectionTimeoutMS=5_000) as client:
        tracking = client[os.environ.get("MONGODB_DATABASE", "bucket")]["tracking"]
        while True:
            try:
                read_on(tracking, Path(names[0]))
            except pymongo.errors.ConnectionFailure as error:
                sys.exit(f"MongoDB at {uri} does not answer (MONGODB_URI names another): {error}")
            if "--once" in sys.argv:
                return
            time.sleep(PAUSE_SECONDS)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
