"""The judgement whether a worker may trust its servers with acknowledged work; `probe` reads.

========== ===================================== =================================================
server     must run with                         else
========== ===================================== =================================================
beanstalkd -b DIR -f 0                           acknowledged jobs go with the process or power
Redis      appendonly yes, appendfsync always    what waits is lost with it
           maxmemory-policy noeviction           it deletes lists and leases when memory is short
           with replicas or Sentinels:           what it acknowledged is lost with a failover, and a
           min-replicas-to-write so large that   primary that is cut off goes on beside the new one
           these and it are most servers,
           min-replicas-max-lag up to 10
           with Sentinels: one replica-priority  Sentinels promote the preferred replica, whatever
           for all, 0 aside                      it lacks
           no cluster                            one script decides over keys of several hash slots
MongoDB    a storage engine that keeps data,     results that were confirmed are lost
           a journal
           no index and no validator of others   the worker could not write, or not begin
           that is in its way
========== ===================================== =================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from limits.server import MEMORY_FIX, Memory
from service.worker.results.schema_conflicts import Conflict
from tracking.errors import TrackingError

MOST_LAG_SECONDS = 10
"""For so long a primary that is cut off goes on; it is what Redis ships with."""

CLOCK_SECONDS = 1.0
"""Clocks that differ by more than this make `expires_in` and shown times wrong."""


class Grade(StrEnum):
    """The grade of a finding: what follows from it.

    ======= ====================================================================
    FINE    as it must be
    UNREAD  nobody can tell from here: `doctor` says what to look at
    UNSURE  is unwise: every worker that starts warns of it
    FULL    takes nothing new: `check` says so, and a worker starts and works off what waits
    AWAY    it does not answer, does not let us in, or takes no writes at the moment: try again
    LOSES   can lose acknowledged work: refused, unless `allow_loss = true`
    UNFIT   cannot work at all: refused
    ======= ====================================================================
    """

    FINE = "fine"
    UNREAD = "unread"
    UNSURE = "unsure"
    FULL = "full"
    AWAY = "away"
    LOSES = "loses"
    UNFIT = "unfit"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing found out about one server; `fix` is "" where nothing is to be done."""

    server: str
    grade: Grade
    what: str
    fix: str = ""

    @property
    def refused(self) -> bool:
        """Whether a worker must not start because of it."""
        return self.grade in {Grade.LOSES, Grade.UNFIT}

    def __str__(self) -> str:
        return f"{self.server} {self.what}. {self.fix}".rstrip()


class UnsafeServer(TrackingError):
    """A server can lose acknowledged work or cannot be worked with. Nothing may be started."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        super().__init__("\n".join(map(str, findings)))
        self.findings = tuple(findings)


@dataclass(frozen=True, slots=True)
class BeanstalkdFacts:
    """The facts that `stats` of one server tells."""

    server: str
    version: str
    binlog: bool
    jobs: int
    records: int
    draining: bool
    job_most: int


@dataclass(frozen=True, slots=True)
class RedisFacts:
    """The facts that INFO, CONFIG and Sentinels tell; None where it must not be read.

    `ahead` is its clock, in seconds. `replicas` are all that are known, also those that are down;
    `priorities` are theirs, of those that Sentinels watch.
    """

    version: str
    role: str
    cluster: bool
    ahead: float
    run_id: str = "-"
    replicas: int = 0
    priorities: tuple[int, ...] = ()
    own_priority: int | None = None
    min_replicas_to_write: str | None = None
    min_replicas_max_lag: str | None = None
    appendonly: str | None = None
    appendfsync: str | None = None
    no_appendfsync_on_rewrite: str | None = None
    maxmemory_policy: str | None = None
    aof_last_write: str | None = None
    memory: Memory | None = None


@dataclass(frozen=True, slots=True)
class MongodbFacts:
    """The facts of serverStatus, getCmdLineOpts and replSetGetConfig; None: not known."""

    version: str
    writable: bool
    ahead: float
    replica_set: str = ""
    persistent: bool | None = None
    journal: bool | None = None
    majority_journal: bool | None = None


def judge_beanstalkd(facts: BeanstalkdFacts) -> Iterator[Finding]:
    """Judge one beanstalkd."""
    server = f"beanstalkd {facts.server}"
    if not facts.binlog:
        fix = "Start it with -b DIR -f 0."
        yield Finding(server, Grade.LOSES, "keeps jobs in memory only (no binlog)", fix)
    elif facts.records < facts.jobs:
        what = f"stopped writing its binlog ({facts.records} records of {facts.jobs} jobs)"
        yield Finding(server, Grade.LOSES, what, "Look at its disk and its log, then restart it.")
    else:
        yield Finding(server, Grade.FINE, f"{facts.version}, writes a binlog")
        what = "cannot tell whether it syncs every job to disk"
        yield Finding(server, Grade.UNREAD, what, "Make sure that it was started with -f 0.")
    if facts.draining:
        yield Finding(server, Grade.UNSURE, "takes no new jobs (drain mode)", "Restart it.")


def judge_redis(facts: RedisFacts, *, watched: bool = False) -> Iterator[Finding]:
    """Judge the Redis; `watched`: by Sentinels, so that a replica may be promoted."""
    yield Finding("Redis", Grade.FINE, f"{facts.version}, {facts.role}")
    if facts.cluster:
        what = "is a Cluster, where one script cannot use keys of different hash slots"
        fix = "Set redis.url to a standalone Redis, or use Sentinels (redis.sentinels)."
        yield Finding("Redis", Grade.UNFIT, what, fix)
    if facts.role not in {"master", "primary"}:
        fix = "Set redis.url to the primary's address, or use Sentinels (redis.sentinels)."
        yield Finding("Redis", Grade.AWAY, "is a replica and takes no writes", fix)
    for name, found, wanted in (
        ("appendonly", facts.appendonly, "yes"),
        ("appendfsync", facts.appendfsync, "always"),
        ("no-appendfsync-on-rewrite", facts.no_appendfsync_on_rewrite, "no"),
        ("maxmemory-policy", facts.maxmemory_policy, "noeviction"),
    ):
        yield _setting(name, found, wanted)
    if watched or facts.replicas:
        least, lag = facts.min_replicas_to_write, facts.min_replicas_max_lag
        most_of_all = str(_replicas_that_confirm(facts))
        enough = least is not None and int(least) >= int(most_of_all)
        yield _setting("min-replicas-to-write", most_of_all if enough else least, most_of_all)
        yield from _priorities(facts)
        short = lag is not None and 0 < int(lag) <= MOST_LAG_SECONDS
        most = str(MOST_LAG_SECONDS)
        yield _setting("min-replicas-max-lag", most if short else lag, most)
    if facts.aof_last_write not in {None, "ok"}:
        what = "could not write its append-only file"
        yield Finding("Redis", Grade.AWAY, what, "Look at its disk and its log.")
    if facts.memory is not None:
        yield from judge_memory(facts.memory)
    yield from _clock("Redis", facts.ahead)


def _replicas_that_confirm(facts: RedisFacts) -> int:
    """How many replicas make a majority of all servers, one that may be promoted among them."""
    most_of_all = max(1, (facts.replicas + 1) // 2)
    never = facts.priorities.count(0)
    return max(most_of_all, never + 1) if 0 < never < facts.replicas else most_of_all


def _priorities(facts: RedisFacts) -> Iterator[Finding]:
    own = () if facts.own_priority is None else (facts.own_priority,)
    found = {each for each in (*facts.priorities, *own) if each}
    if facts.priorities and len(found) > 1:
        words = ", ".join(map(str, sorted(found)))
        what = f"has servers of different replica-priority ({words})"
        fix = "Sentinels promote the lowest, whatever it lacks: set one on all of them, in "
        fix += "redis.conf, and now: CONFIG SET replica-priority 100. 0 is for one that never is."
        yield Finding("Redis", Grade.LOSES, what, fix)


def judge_memory(memory: Memory) -> Iterator[Finding]:
    """Judge what the Redis uses of its memory."""
    if memory.full:
        what = f"is full ({memory}): new requests stay in beanstalkd"
        yield Finding("Redis", Grade.FULL, what, MEMORY_FIX)


def judge_mongodb(facts: MongodbFacts) -> Iterator[Finding]:
    """Judge the MongoDB."""
    kind = f"replica set {facts.replica_set}" if facts.replica_set else "standalone"
    yield Finding("MongoDB", Grade.FINE, f"{facts.version}, {kind}")
    if not facts.writable:
        fix = "Name all members and ?replicaSet=NAME in mongodb.uri."
        yield Finding("MongoDB", Grade.AWAY, "takes no writes (no primary)", fix)
    if facts.persistent is False:
        fix = "Start it with --storageEngine wiredTiger."
        yield Finding("MongoDB", Grade.LOSES, "keeps data in memory only", fix)
    if facts.journal is False:
        yield Finding("MongoDB", Grade.LOSES, "has no journal", "Start it without --nojournal.")
    if facts.majority_journal is False:
        fix = "Set writeConcernMajorityJournalDefault to true in the replica set."
        yield Finding("MongoDB", Grade.LOSES, "confirms majority writes before the journal", fix)
    if facts.persistent is None:
        what = "does not let its user read which storage engine it uses"
        fix = "Make sure that it is wiredTiger, or give the user the role clusterMonitor."
        yield Finding("MongoDB", Grade.UNREAD, what, fix)
    yield from _clock("MongoDB", facts.ahead)


def judge_conflicts(found: Iterable[Conflict]) -> Iterator[Finding]:
    """Judge what others made in the worker's database."""
    for each in found:
        yield Finding("MongoDB", Grade.UNFIT if each.sure else Grade.UNSURE, each.what, each.fix)


def allowed(findings: Iterable[Finding], *, permitted: bool) -> list[Finding]:
    """Turn what is only permitted by `allow_loss` of the server's section into warnings."""
    if not permitted:
        return list(findings)
    return [
        replace(each, grade=Grade.UNSURE, fix=f"{each.fix} (allow_loss is on.)".strip())
        if each.grade is Grade.LOSES
        else each
        for each in findings
    ]


def insist(findings: Sequence[Finding]) -> None:
    """Raise UnsafeServer when a worker must not start on these findings."""
    if refused := [each for each in findings if each.refused]:
        raise UnsafeServer(refused)


def _setting(name: str, found: str | None, wanted: str) -> Finding:
    if found == wanted:
        return Finding("Redis", Grade.FINE, f"{name} {found}")
    if found is None:
        what = f"does not let its user read {name}"
        fix = f"Make sure that it is {wanted}, or allow the user CONFIG GET."
        return Finding("Redis", Grade.UNREAD, what, fix)
    fix = f"Set {name} {wanted} in redis.conf, and now: CONFIG SET {name} {wanted}."
    return Finding("Redis", Grade.LOSES, f"has {name} {found}", fix)


def _clock(server: str, ahead: float) -> Iterator[Finding]:
    if abs(ahead) > CLOCK_SECONDS:
        side = "ahead of" if ahead > 0 else "behind"
        what = f"has a clock that is {abs(ahead):.1f} s {side} this machine's"
        yield Finding(server, Grade.UNSURE, what, "Let NTP set the clocks of both machines.")
