"""What Redis holds is weighed by its keys alone."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from redis import Redis

from benchmarks import redis_figures
from benchmarks.filling import fill
from benchmarks.redis_figures import bytes_held, bytes_of_keys, bytes_of_tables
from benchmarks.rig import slugs

UNFINISHED = b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$1000000\r\n" + b"x" * 500_000
PATIENCE = 10.0


@pytest.fixture
def redis(redis_url: str) -> Iterator[Redis]:
    with Redis.from_url(redis_url, decode_responses=True) as opened:
        yield opened


def used(redis: Redis) -> int:
    return int(redis.info("memory")["used_memory"])


def test_what_redis_keeps_for_its_clients_weighs_nothing(redis: Redis, redis_url: str) -> None:
    redis.mset({f"key-{index}": index for index in range(100)})
    held, before, at = bytes_held(redis), used(redis), urlsplit(redis_url)

    with socket.create_connection((at.hostname, at.port or 6379)) as other:
        other.sendall(UNFINISHED)
        deadline = time.monotonic() + PATIENCE
        while used(redis) < before + 400_000:
            assert time.monotonic() < deadline, "Redis keeps what a client has not finished"
            time.sleep(0.01)

        assert bytes_held(redis) == held


def test_every_key_of_a_pattern_is_weighed_with_all_of_its_members(
    redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_figures, "PAGE", 10)  # some pages
    redis.mset({f"text-{index}": "x" * index for index in range(100)})
    redis.hset("hash-0", mapping={f"{index}": "x" * index for index in range(1_000)})
    each = {name: redis.memory_usage(name, samples=0) or 0 for name in redis.scan_iter()}

    assert len(each) == 101
    assert bytes_of_keys(redis) == sum(each.values())
    assert bytes_of_keys(redis, "hash-*") == each["hash-0"] > 500_000


def test_a_key_has_a_place_in_a_table(redis: Redis) -> None:
    if "overhead.db.hashtable.lut" not in redis.memory_stats():
        pytest.skip("this Redis does not tell of its tables")
    before = bytes_of_tables(redis)

    redis.mset({f"key-{index}": "" for index in range(20_000)})

    assert 8 <= (bytes_of_tables(redis) - before) / 20_000 <= 32


def test_a_waiting_request_weighs_the_same_every_time(redis: Redis, redis_url: str) -> None:
    weighed = []
    for _ in range(3):
        redis.flushdb()
        fill(redis_url, slugs(2), range(2_000))
        weighed.append(bytes_held(redis) / 2_000)

    assert weighed == pytest.approx([weighed[0]] * 3, rel=0.01)
    assert 100 < weighed[0] < 250
