"""Every setting, with its type, its bounds and its default. What they mean stands in config.toml.

Field names are the keys of config.toml. A bound or a form that the type cannot say stands in
`Meta`; its description is what a person reads who got it wrong. Annotations are no texts here, as
msgspec would read each of 220 texts again whenever a verb begins.
"""

from typing import Annotated, ClassVar, Literal, TypeVar

from msgspec import Meta, Struct, field, structs

from couriers.slugs import ALIASES, together

Count = Annotated[int, Meta(ge=1, le=1_000_000_000)]
Few = Annotated[int, Meta(ge=1, le=1_000)]
Many = Annotated[int, Meta(ge=1, le=1_000_000)]
Seconds = Annotated[float, Meta(gt=0, le=86_400)]
Hours = Annotated[float, Meta(ge=0, le=8_760, description="hours from 0 up to 8760; 0 means never")]
Days = Annotated[int, Meta(ge=1, le=3_650)]
Milliseconds = Annotated[int, Meta(ge=0, le=1_000)]
FillMilliseconds = Annotated[int, Meta(ge=0, le=60_000)]
Ports = Annotated[
    tuple[Annotated[int, Meta(ge=1, le=65_535)], ...],
    Meta(description="a list of ports, like [8080]"),
]
Numbers = Annotated[int, Meta(ge=1, le=100)]
Word = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]+\Z", description="text of A-Z a-z 0-9 _ -")]
TimeOfDay = Annotated[
    str,
    Meta(pattern=r"^([01]\d|2[0-3]):[0-5]\d\Z", description='a time of day in UTC, like "17:00"'),
]


class Section(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One table of config.toml. `FREE` names the field that takes all keys without one."""

    FREE: ClassVar[str] = ""

    def __repr__(self) -> str:
        """Only the name: values may be secrets. `config show` prints them, masked."""
        return f"<{type(self).__name__}>"


class Beanstalkd(Section, frozen=True):
    """`[beanstalkd]`: where jobs come from."""

    servers: Annotated[tuple[str, ...], Meta(min_length=1)] = ("127.0.0.1:11300",)
    allow_loss: bool = False


class Redis(Section, frozen=True):
    """`[redis]`: who may call and who waits. With `sentinels`, the host in `url` is not used."""

    url: str = "redis://127.0.0.1:6379/0"
    sentinels: tuple[str, ...] = ()
    service: str = ""
    sentinel_username: str = ""
    sentinel_password: str = ""
    mirror: bool = False
    allow_loss: bool = False


class Mongodb(Section, frozen=True):
    """`[mongodb]`: where results and dead requests are kept."""

    uri: str = "mongodb://127.0.0.1:27017"
    database: Word = "bucket"
    collection: Word = "tracking"
    past_collection: Word = "tracking_past"
    dead_collection: Word = "dead"
    unreadable_collection: Word = "unreadable"
    allow_loss: bool = False


class Worker(Section, frozen=True):
    """`[worker]`: the processes of one machine."""

    processes: Annotated[int, Meta(ge=1, le=256)] = 1
    concurrency: Annotated[int, Meta(ge=1, le=100_000)] = 5_000
    grace_seconds: Annotated[float, Meta(ge=0, le=3_600)] = 35.0


class Requests(Section, frozen=True):
    """`[requests]`: what a request gets that does not say otherwise."""

    max_age_seconds: Annotated[float, Meta(ge=0, le=31_536_000)] = 30.0


class SlugLimits(Section, frozen=True):
    """`[limits.slugs.<slug>]`: what differs for one courier. None: as in `[limits]`.

    `together` and `quotas_count_numbers` are of one courier only; None: as its module knows.
    """

    together: Numbers | None = None
    quotas_count_numbers: bool | None = None
    fill_ms: FillMilliseconds | None = None
    concurrent: Many | None = None
    per_second: Many | None = None
    guard_ms: Milliseconds | None = None
    guard_most_ms: Milliseconds | None = None
    call_timeout_seconds: Seconds | None = None
    lease_seconds: Seconds | None = None
    max_waiting: Count | None = None
    per_hour: Count | None = None
    per_day: Count | None = None
    day_resets_at: TimeOfDay | None = None


class Limits(Section, frozen=True):
    """`[limits]`: what every courier allows, over all workers on all machines."""

    concurrent: Many = 20
    per_second: Many = 2
    fill_ms: FillMilliseconds = 2_000
    guard_ms: Milliseconds = 20
    guard_most_ms: Milliseconds = 100
    call_timeout_seconds: Seconds = 30.0
    lease_seconds: Seconds = 60.0
    max_waiting: Count = 1_000_000
    per_hour: Count | None = None
    per_day: Count | None = None
    day_resets_at: TimeOfDay = "00:00"
    slugs: dict[str, SlugLimits] = field(default_factory=dict)


class Retry(Section, frozen=True):
    """`[retry]`: how often and how fast a failed call is repeated."""

    attempts: Few = 5
    first_seconds: Seconds = 10.0
    cap_seconds: Seconds = 3_600.0
    give_up_days: Days = 7
    deaths: Few = 10


class Results(Section, frozen=True):
    """`[results]`: how long what is known about a parcel is kept."""

    keep_days: Annotated[int, Meta(ge=0, le=3_650)] = 0
    excerpt_days: Days = 30


class Operations(Section, frozen=True):
    """`[operations]`: how long is kept what became of each request."""

    keep_days: Days = 90


class Dead(Section, frozen=True):
    """`[dead]`: what happens to the records of requests that got no answer."""

    keep_days: Days = 30


class SlugRecheck(Section, frozen=True):
    """`[recheck.slugs.<slug>]`: what differs for one courier. None: as in `[recheck]`."""

    enabled: bool | None = None
    pending_hours: Hours | None = None
    info_received_hours: Hours | None = None
    in_transit_hours: Hours | None = None
    out_for_delivery_hours: Hours | None = None
    attempt_fail_hours: Hours | None = None
    available_for_pickup_hours: Hours | None = None
    exception_hours: Hours | None = None
    expires_after_days: Days | None = None


class Recheck(Section, frozen=True):
    """`[recheck]`: whether and how often active parcels are asked about again by themselves."""

    enabled: bool = True
    pending_hours: Hours = 1.0
    info_received_hours: Hours = 6.0
    in_transit_hours: Hours = 4.0
    out_for_delivery_hours: Hours = 0.75
    attempt_fail_hours: Hours = 4.0
    available_for_pickup_hours: Hours = 8.0
    exception_hours: Hours = 6.0
    expires_after_days: Days = 30
    slugs: dict[str, SlugRecheck] = field(default_factory=dict)


class Api(Section, frozen=True):
    """`[api]`: HTTP for programs, the door included."""

    listen: str = "127.0.0.1:8080"


class Ingest(Section, frozen=True):
    """`[ingest]`: the door for requests alone, and what every door keeps on its disk."""

    listen: str = "127.0.0.1:8081"
    spool: Annotated[str, Meta(min_length=1)] = "spool.sqlite"
    spool_mib: Annotated[int, Meta(ge=1, le=1_000_000)] = 1_024
    keys: Annotated[str, Meta(min_length=1)] = "keys.json"
    domain: Annotated[
        str,
        Meta(
            pattern=r"^([a-z0-9-]{1,63}(\.[a-z0-9-]{1,63}){0,8})?\Z",
            max_length=189,
            description="a domain in small letters, like in.example.com",
        ),
    ] = ""
    tube_mib: Annotated[int, Meta(ge=2, le=1_000_000)] = 512


class Http(Section, frozen=True):
    """`[http]`: how `api` and `ingest` serve."""

    hosts: tuple[str, ...] = ()
    require_key: bool = False
    per_second: Annotated[float, Meta(gt=0, le=1_000_000)] = 1_000.0
    connections: Annotated[int, Meta(ge=1, le=1_000_000)] = 1_000
    links_by_get: bool = False
    public_url: Annotated[
        str,
        Meta(
            pattern=r"^(https?://[^\s/?#]+(/[^\s?#]*[^\s/?#])?)?\Z",
            description="an address without a slash at the end, like https://track.example.com",
        ),
    ] = ""
    trusted_proxies: tuple[str, ...] = ()
    user_header: Annotated[
        str, Meta(pattern=r"^[A-Za-z0-9-]*\Z", description="the name of a header, like X-Email")
    ] = ""


class Web(Section, frozen=True):
    """`[web]`: the pages that `api` serves."""

    enabled: Literal["loopback", "always", "never"] = "loopback"
    sign_up: Literal["closed", "domain", "open"] = "closed"
    sign_up_domains: tuple[str, ...] = ()
    sign_up_account: str = ""
    sign_up_calls_a_day: Count = 1_000
    sign_up_parcels: Count = 1_000
    sign_up_requests_a_minute: Count = 300
    public_proof: bool = False


class Allowed(Section, frozen=True):
    """`[webhooks.allowed.<account>]`: where its deliveries may go beside public addresses."""

    networks: tuple[str, ...] = ()
    http: bool = False
    ports: Ports = ()


class Webhooks(Section, frozen=True):
    """`[webhooks]`: what accounts may have delivered, and how."""

    keys: str = ""
    timeout_seconds: Annotated[float, Meta(ge=1, le=25)] = 15.0
    attempts: Annotated[int, Meta(ge=1, le=50)] = 10
    concurrent: Few = 20
    per_second: Few = 10
    services_most: Few = 50
    made_a_day: Few = 200
    keep_days: Days = 30
    attempts_keep_days: Days = 30
    inbox_keep_days: Annotated[int, Meta(ge=1, le=90)] = 30
    open_most: Count = 1_000_000
    open_gib: Many = 10
    own_names: tuple[str, ...] = ()
    allowed: dict[str, Allowed] = field(default_factory=dict)


class Mail(Section, frozen=True):
    """`[mail]`: the server that takes alerts, and who hears of what no account does."""

    host: str = ""
    port: Annotated[int, Meta(ge=1, le=65_535)] = 587
    tls: Literal["starttls", "tls", "none"] = "starttls"
    user: str = ""
    password: str = ""
    sender: str = ""
    operators: str = ""


class Metrics(Section, frozen=True):
    """`[metrics]`: figures for Prometheus, of the workers of one parent."""

    listen: str = "127.0.0.1:9400"


class Log(Section, frozen=True):
    """`[log]`: what is written on standard output."""

    format: Literal["auto", "json", "pretty"] = "auto"
    level: Literal["debug", "info", "warning", "error"] = "info"


class Courier(Section, frozen=True):
    """`[couriers.<slug>]`: where a courier is asked. All other keys are its credentials."""

    FREE: ClassVar[str] = "credentials"

    base_url: str = ""
    token_url: str = ""
    keep: Annotated[str, Meta(pattern=r"^[ -]*\Z", description='text of blanks and "-"')] = ""
    module: Annotated[
        str, Meta(pattern=r"^([a-z][a-z0-9_]*)?\Z", description="the name of a courier module")
    ] = ""
    numbers_per_call: Numbers = 1
    credentials: dict[str, str] = field(default_factory=dict)


class Config(Section, frozen=True):
    """The whole configuration, checked. Made by `service.config.load`."""

    beanstalkd: Beanstalkd = Beanstalkd()
    redis: Redis = Redis()
    mongodb: Mongodb = Mongodb()
    worker: Worker = Worker()
    requests: Requests = Requests()
    limits: Limits = Limits()
    retry: Retry = Retry()
    results: Results = Results()
    operations: Operations = Operations()
    dead: Dead = Dead()
    recheck: Recheck = Recheck()
    api: Api = Api()
    ingest: Ingest = Ingest()
    http: Http = Http()
    web: Web = Web()
    webhooks: Webhooks = Webhooks()
    mail: Mail = Mail()
    metrics: Metrics = Metrics()
    log: Log = Log()
    couriers: dict[str, Courier] = field(default_factory=dict)


S = TypeVar("S", bound=Section)

LEASE_MOST_SECONDS = 60.0
"""The documented expiry of `calls_number:<slug>`: a slot must not be held longer by the dead."""

AROUND_ATTEMPT_SECONDS = 5.0
"""For what MongoDB is asked before a delivery's attempt."""


def silence_seconds(config: Config) -> float:
    """How long a worker may hang: the least by which any courier's lease outlasts its call.

    A worker that hangs for longer could have a call open whose slot is already given to another.
    """
    return min(_spare_seconds(config), LEASE_MOST_SECONDS - delivery_seconds(config))


def delivery_seconds(config: Config, timeout_seconds: float | None = None) -> float:
    """How long a delivery's call may take, what comes before and after its attempt included."""
    return (timeout_seconds or config.webhooks.timeout_seconds) + AROUND_ATTEMPT_SECONDS


def delivery_lease_seconds(config: Config, timeout_seconds: float) -> float:
    """How long the lease of a delivery's call is, which outlasts it by as much as a courier's."""
    lease = delivery_seconds(config, timeout_seconds) + _spare_seconds(config)
    return min(max(lease, config.limits.lease_seconds), LEASE_MOST_SECONDS)


def _spare_seconds(config: Config) -> float:
    """The least by which a courier's lease outlasts its call."""
    tables = [config.limits, *(limits_for(config, slug) for slug in config.limits.slugs)]
    return min(limits.lease_seconds - limits.call_timeout_seconds for limits in tables)


def limits_for(config: Config, slug: str) -> Limits:
    """Lay `[limits.slugs.<slug>]` over `[limits]`: the limits of one courier."""
    return _laid_over(config.limits, config.limits.slugs.get(slug))


def courier_of(config: Config, slug: str) -> Courier:
    """Find what is set for a courier, also under its old name; the defaults where nothing is."""
    old = next((alias for alias, meant in ALIASES.items() if meant == slug), "")
    return config.couriers.get(slug) or config.couriers.get(old) or Courier()


def together_most(config: Config, slug: str) -> int:
    """How many numbers one call to a courier may carry: its module knows, or the feed's table."""
    courier = courier_of(config, slug)
    return courier.numbers_per_call if courier.module else together(slug, courier.base_url)


def together_for(config: Config, slug: str) -> int:
    """How many numbers a call to a courier carries at most, as it is set."""
    own = config.limits.slugs.get(slug)
    return (own and own.together) or together_most(config, slug)


def recheck_for(config: Config, slug: str) -> Recheck:
    """Lay `[recheck.slugs.<slug>]` over `[recheck]`: the re-checks of one courier."""
    return _laid_over(config.recheck, config.recheck.slugs.get(slug))


def _laid_over(common: S, own: Section | None) -> S:
    differing = structs.asdict(own) if own is not None else {}
    shared = {name: each for name, each in differing.items() if name in common.__struct_fields__}
    return structs.replace(
        common, **{name: value for name, value in shared.items() if value is not None}
    )
