"""The Redis of the simulation answers and stores what a real one does, script for script."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test
from portion import PORTION
from redis import Redis
from redis.exceptions import ResponseError
from simulated.commands import execute
from simulated.keyspace import Entries, Hash, Items, Keyspace, Members, Refusal, Scores, Status
from simulated.scripting import Scripting
from walk import Walk

from limits.keys import ACCOUNT_QUOTAS

WALKS = 4 * PORTION
COMPARED = 30 * PORTION
"""Scripts at least: some walks are drawn short."""

SCRIPTING = Scripting()
EDGE_MS = 25
"""Around the end of a key nobody can say whether both Redis' find it."""


FROZEN = """
local redis = (function(real)
  local time = real.call('TIME')
  local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
  local function at_that_time(way)
    return function(name, ...)
      local with = { ... }
      if name == 'TIME' then return time end
      if name == 'PEXPIRE' then
        return way('PEXPIREAT', with[1], now_ms + with[2], unpack(with, 3))
      end
      if name == 'SET' and with[3] == 'PX' then
        return way('SET', with[1], with[2], 'PXAT', now_ms + with[4])
      end
      if name == 'XADD' then
        for i = 2, 5 do with[i] = with[i] == '*' and now_ms .. '-*' or with[i] end
        return way(name, unpack(with))
      end
      if name ~= 'PTTL' then return way(name, ...) end
      local ends = way('PEXPIRETIME', ...)
      return ends < 0 and ends or math.max(ends - now_ms, 0)
    end
  end
  local calls = { call = at_that_time(real.call), pcall = at_that_time(real.pcall) }
  return setmetatable(calls, { __index = real })
end)(redis)
"""
"""Before a script: all that it does is of one instant, which ours gets, too. Of itself a real Redis
counts expiries from its start, stamps entries with that, and before 7.2 tells it a later time."""


class Twins:
    """A real Redis and the one in process: every command goes to both, every reply is compared."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._at_us = 0
        self._space = Keyspace(self._now_us)
        self._space.flush()
        self.compared = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._redis, name)

    def set(self, key: str, value: str) -> Any:
        return self._both(self._redis.set(key, value), "SET", key, value)

    def rpush(self, key: str, value: str) -> Any:
        return self._both(self._redis.rpush(key, value), "RPUSH", key, value)

    def pexpire(self, key: str, ms: int) -> Any:
        # By the clock of both: a busy machine may take some milliseconds between them.
        now_ms = round(time.time() * 1000)
        reply = self._redis.pexpireat(key, now_ms + ms)
        self._at_us = now_ms * 1000
        self._space.tick()
        execute(self._space, "PEXPIRE", (key, str(ms)))
        return reply

    def delete(self, *keys: str) -> Any:
        return self._both(self._redis.delete(*keys), "DEL", *keys)

    def zadd(self, key: str, scores: dict[str, float], *, xx: bool = False) -> Any:
        ((member, score),) = scores.items()
        reply = self._redis.zadd(key, scores, xx=xx)
        return self._both(reply, "ZADD", key, *["XX"][: int(xx)], str(score), member)

    def hset(self, key: str, field: str, value: str | int) -> Any:
        return self._both(self._redis.hset(key, field, value), "HSET", key, field, str(value))

    def hdel(self, key: str, *fields: str) -> Any:
        return self._both(self._redis.hdel(key, *fields), "HDEL", key, *fields)

    def eval(self, text: str, count: int, *values: Any) -> Any:
        self._keep_off_the_edges()
        replies = self._redis.eval(FROZEN + text, count, *values)
        self._at_us = replies[0][0]
        self._space.tick()
        texts = [each.decode() if isinstance(each, bytes) else str(each) for each in values]
        ours = SCRIPTING.run(
            self._space, text.encode().decode("latin-1"), texts[:count], texts[count:]
        )
        assert _plain(ours) == _plain(replies)
        self._compare()
        return replies

    def _both(self, reply: Any, name: str, *args: str) -> Any:
        self._at_us = round(time.time() * 1_000_000)
        self._space.tick()
        execute(self._space, name, args)
        return reply

    def _now_us(self) -> int:
        return self._at_us

    def _keep_off_the_edges(self) -> None:
        while True:
            self._at_us = round(time.time() * 1_000_000)
            self._space.tick()
            left = [self._space.left_ms(key) for key in self._space.names()]
            if not any(0 <= each < EDGE_MS for each in left):
                return
            time.sleep(EDGE_MS / 1000)

    def _compare(self) -> None:
        found = set(self._redis.keys())
        names = sorted(found & set(self._space.names()))
        pipeline = self._redis.pipeline(transaction=False)
        for name in names:
            READ[type(self._space.find(name))](pipeline, name)
            pipeline.pexpiretime(name)
        *told, (seconds, us) = pipeline.time().execute()
        ended = self._ended_by(seconds * 1000 + us // 1000)
        assert set(self._space.names()) - ended == found - ended
        for name, value, end_ms in zip(names, told[::2], told[1::2], strict=True):
            if name not in ended:
                assert _stored(self._space.find(name), value) == _plain(value), name
                assert self._end_ms(name) == end_ms, name
        self.compared += 1

    def _ended_by(self, now_ms: int) -> set[str]:
        """Keys that the real Redis may have ended while it was being compared."""
        return {name for name in self._space.names() if 0 <= self._end_ms(name) <= now_ms}

    def _end_ms(self, name: str) -> int:
        left_ms = self._space.left_ms(name)
        return -1 if left_ms == -1 else self._space.now_ms + left_ms


READ: dict[type, Any] = {
    str: lambda redis, name: redis.get(name),
    Hash: lambda redis, name: redis.hgetall(name),
    Items: lambda redis, name: redis.lrange(name, 0, -1),
    Members: lambda redis, name: redis.smembers(name),
    Scores: lambda redis, name: redis.zrange(name, 0, -1, withscores=True),
    Entries: lambda redis, name: redis.xrange(name),
}


def _stored(value: object, theirs: Any) -> object:
    match value:
        case Members():
            return set(value)
        case Scores():
            return _plain([list(each) for each in value.ranked()])
        case Entries():
            ours = [(name, {field: text}) for name, (field, text) in value]
            # A real one that is trimmed with `~` loses the oldest later.
            return _plain([*theirs[: max(0, len(theirs) - len(ours))], *ours])
    return _plain(value)


def _plain(value: object) -> object:
    """JSON in replies and values is compared as what it means: its members have no order."""
    match value:
        case dict():
            return {name: _plain(each) for name, each in value.items()}
        case list() | tuple():
            return [_plain(each) for each in value]
        case str() if value[:1] in {"{", "["}:
            return [json.loads(each) for each in value.split("\t")]  # an answer is two
    return value


class TwinWalk(Walk):
    """The random walk of the limits' tests, with both.

    No key is of another type: an error tells no time by which ours could run. Nothing is cut off
    by hand, which ours would not hear of.
    """

    a_key_is_of_another_type_for_a_while = None
    a_record_cannot_be_read_for_a_while = None

    def __init__(self, url: str, at_once: int) -> None:
        super().__init__(url, at_once)
        self.redis.flushdb()
        epoch = self.redis
        self.redis = Twins(epoch)  # type: ignore[assignment]
        self.redis.set("tracking:epoch", "walk 0")
        self.redis.hset(ACCOUNT_QUOTAS, "!", 0)


@pytest.mark.portion
@pytest.mark.parametrize("at_once", [100, 2])
def test_both_answer_and_keep_the_same_over_any_walk(redis_url: str, at_once: int) -> None:
    walks = settings(max_examples=WALKS, stateful_step_count=30)
    machines: list[TwinWalk] = []

    def machine() -> TwinWalk:
        machines.append(TwinWalk(redis_url, at_once))
        return machines[-1]

    run_state_machine_as_test(machine, settings=walks)

    compared = sum(each.redis.compared for each in machines)  # type: ignore[attr-defined]
    assert compared > COMPARED


AN_ERROR = "an error"

ODD: Sequence[tuple[str, Sequence[str]]] = [
    ("return {1, 2.9, 'text', false, nil, 'after a hole'}", ()),
    ("return {true, {ok = 'FINE'}, {1, {2, {}}}}", ()),
    ("return redis.call('SET', KEYS[1], ARGV[1], 'NX')", ("k", "v")),
    ("return redis.call('SET', KEYS[1], ARGV[1], 'NX')", ("k", "w")),
    ("return redis.call('GET', KEYS[1])", ("k",)),
    ("return redis.call('GET', KEYS[1]) == false", ("absent",)),
    ("return redis.call('HGET', KEYS[1], 'f')", ("k",)),
    ("return redis.pcall('LPUSH', KEYS[1], 'x')", ("k",)),
    ("return select(2, pcall(redis.call, 'LPUSH', KEYS[1], 'x'))", ("k",)),
    ("return redis.error_reply('MY fault')", ()),
    ("return cjson.encode({})", ()),
    ("return cjson.encode({1, 2, 'a/b\"\\\\', {x = 1.5}})", ()),
    ("return cjson.encode({[1] = 1, [3] = 3})", ()),
    ("return cjson.encode(1795224758427013) .. ' ' .. 1795224758427013", ()),
    ("return cjson.encode('\\1\\127\\195\\169')", ()),
    ('return cjson.encode(cjson.decode(\'{"a": [1, null, true, "\\\\u00e9/"], "b": {}}\'))', ()),
    ("return {string.format('%.0f', 1e15), tostring(2^53), 7 / 2, 1e15}", ()),
    ("return redis.call('ZADD', KEYS[1], 1795224758427013, 'm', 0.5, 'n')", ("z",)),
    ("return redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')", ("z",)),
    ("return redis.call('ZRANGEBYSCORE', KEYS[1], '(0.5', '+inf')", ("z",)),
    ("return redis.call('HSET', KEYS[1], 'n', 1.5, 'm', 3)", ("h",)),
    ("return redis.call('HGETALL', KEYS[1])", ("h",)),
    ("return redis.call('RPUSH', KEYS[1], 'a', 'b', 'a')", ("l",)),
    ("return redis.call('LSET', KEYS[1], 1, '')", ("l",)),
    ("return redis.call('LSET', KEYS[1], 3, '')", ("l",)),
    ("return {redis.call('LPOS', KEYS[1], ''), redis.call('LINDEX', KEYS[1], -4)}", ("l",)),
    ("return redis.call('LTRIM', KEYS[1], 1, -1)", ("l",)),
    ("return redis.call('HSCAN', KEYS[1], 0, 'COUNT', 1)", ("h",)),
    ("return redis.call('LRANGE', KEYS[1], 0, -1)", ("l",)),
    ("return #redis.call('MGET', KEYS[1], 'absent')", ("l",)),
]


def test_what_scripts_may_meet_is_answered_as_by_a_real_redis(redis_url: str) -> None:
    space = Keyspace(lambda: round(time.time() * 1_000_000))

    with Redis.from_url(redis_url, decode_responses=True) as redis:
        for text, values in ODD:
            keys, args = list(values[:1]), list(values[1:])
            try:
                theirs = redis.eval(text, len(keys), *keys, *args)
            except ResponseError:
                theirs = AN_ERROR
            space.tick()
            ours = SCRIPTING.run(space, text, keys, args)

            assert _as_told(ours) == theirs, text


def _as_told(reply: object) -> object:
    """As redis-py tells it; of errors only that there is one."""
    match reply:
        case list():
            return [_as_told(each) for each in reply]
        case str():
            return reply.encode("latin-1").decode()
        case Status(text):
            return text
        case Refusal():
            return AN_ERROR
    return reply
