"""Shows what became of a request: its status in Redis, its result in MongoDB.

pip install pymongo redis
python examples/read_result.py usps 9405903699300184125060 order-1042
"""

from __future__ import annotations

import json
import os
import sys

try:
    import pymongo
    import redis
except ModuleNotFoundError as missing:
    sys.exit(f"{missing.name} is not installed: pip install pymongo redis")

if not 3 <= len(sys.argv) <= 4:  # noqa: PLR2004 - the program and two or three arguments
    sys.exit("usage: read_result.py SLUG NUMBER [ID]")
slug, number, *operation = sys.argv[1:]
# Results are kept under the number's one form, whatever the producer typed.
key = f"{slug}:{number.strip().upper().replace(' ', '').replace('-', '')}"

if operation:
    url = os.environ.get("REDIS_URL", "redis://127.0.0.1:6379/0")
    try:
        with redis.Redis.from_url(url) as client:
            status = client.get(f"tracking:status:{operation[0]}")
    except (redis.RedisError, ValueError) as error:
        sys.exit(f"Redis (REDIS_URL names another) did not answer: {error}")
    print(json.loads(status)["status"] if status else "no status: it waits, or nobody put it")

uri = os.environ.get("MONGODB_URI", "mongodb://127.0.0.1:27017")
try:
    with pymongo.MongoClient(uri, serverSelectionTimeoutMS=5_000) as mongo:
        bucket = mongo[os.environ.get("MONGODB_DATABASE", "bucket")]
        found = bucket["tracking"].find_one({"_id": key})
        lost = bucket["dead"].find_one({"slug": slug, "number": key.partition(":")[2]})
except pymongo.errors.PyMongoError as error:
    sys.exit(f"MongoDB (MONGODB_URI names another) did not answer: {error}")

if found is None and lost is None:
    sys.exit(f"nothing is stored about {key} yet")
print(json.dumps(found or lost, default=str, indent=2, ensure_ascii=False))
