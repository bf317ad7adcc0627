"""Whatever stands in config.toml and the environment is a configuration, or refused by name."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from damage import damaged
from hypothesis import example, given
from hypothesis import strategies as st
from portion import examples

from couriers.http.fetch import root
from couriers.registry import Registry
from service.config.address import BadAddress, check_http, secrets_of
from service.config.domain import courier_settings, redis_address, rules_for
from service.config.load import Loaded, load
from service.config.paths import Path as Setting
from service.config.paths import is_section, kind_at, settings_of
from service.config.problems import ConfigError
from service.config.schema import Config
from tracking.request import Slug

pytestmark = pytest.mark.portion

SHIPPED = (Path(__file__).parents[2] / "config.toml").read_text("utf-8")
EVERYTHING = re.sub(r"^# ?(?=\[|\w+ = )", "", SHIPPED, flags=re.MULTILINE).encode()
"""With every setting that is commented out."""

PIECES = (
    *(b"[", b"]", b"[[", b"]]", b"=", b'"', b"'", b'"""', b"\n", b"#", b".", b",", b"{", b"}"),
    *(b"0x" + b"f" * 5000, b"9" * 5000, b"inf", b"nan", b"1e400", b"-1", b"true", b"1_0", b"0o7"),
    *(b"1979-05-27T07:32:00Z", b"07:32:00", b"\\u0000", b"\\ud800", b"\xff", b"\x00", b"\r"),
    *(
        b"[limits.slugs.usps]\n",
        b"[couriers.a]\n",
        b'credentials = "x"\n',
        b"\xe2\x80\xa8",
        b"\x85",
    ),
)

SECTIONS = settings_of(Config)
KEYS = sorted(
    {name for kind in SECTIONS.values() if hasattr(kind, "FREE") for name in settings_of(kind)}
)
NAMES = st.sampled_from([*SECTIONS, *KEYS, "usps", "royal-mail", "slugs", "credentials", "FREE"])
KEY = NAMES | st.text(max_size=6)
SINGLE = (
    st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=8)
    | st.dates()
    | st.times()
    | st.datetimes()
    | st.sampled_from(["127.0.0.1:1", "redis://h/0", "http://h", "00:00", "json_feed", 10**400])
)
VALUE = st.recursive(
    SINGLE,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEY, inner, max_size=3),
    max_leaves=6,
)
DOCUMENTS = st.dictionaries(
    NAMES | KEY, st.dictionaries(KEY, VALUE, max_size=4) | VALUE, max_size=5
)
WORDS = st.sampled_from(
    [*(name.upper() for name in [*SECTIONS, *KEYS]), "USPS", "ROYAL_MAIL", "SLUGS", "FILE", "", "_"]
)
VARIABLES = st.lists(WORDS | st.text("ABZ_aé\udcff9", max_size=4), max_size=4).map(
    lambda words: "TRACKER_" + "__".join(words)
)
SET = sorted(
    f"TRACKER_{section}__{key}".upper()
    for section, kind in SECTIONS.items()
    for key in (settings_of(kind) if is_section(kind) else ())
) + [f"TRACKER_COURIERS__USPS__{key}" for key in ("BASE_URL", "MODULE", "KEEP", "CLIENT_ID")]
"""Variables as they should be; only their values are not."""

VARIABLES |= st.sampled_from([*SET, *(f"{name}_FILE" for name in SET)])
GIVEN = (
    st.text(st.characters(codec=None, exclude_characters="\0"), max_size=8)
    | VALUE.map(lambda value: json.dumps(value, default=str) if _is_short(value) else "1")
    | st.sampled_from(["[" * 5000, '{"usps":' * 2000, "1" * 5000, "1e999", "NaN", "-0", "\udcff"])
)


def _is_short(value: Any) -> bool:
    try:
        return len(str(value)) < 1000
    except ValueError:  # an integer of thousands of digits
        return False


def as_toml(value: Any) -> str:
    """Write a value as TOML; tables inline."""
    match value:
        case bool():
            text = str(value).lower()
        case int() | float():
            text = repr(value)
        case str():
            text = quoted(value)
        case list():
            text = f"[{', '.join(map(as_toml, value))}]"
        case dict():
            inside = ", ".join(f"{quoted(key)} = {as_toml(each)}" for key, each in value.items())
            text = f"{{{inside}}}"
        case _:
            text = value.isoformat()
    return text


def quoted(text: str) -> str:
    return json.dumps(text).replace("\x7f", "\\u007f")


def document(tables: Mapping[str, Any]) -> str:
    """Write a document, tables under their headers."""
    lines: list[str] = []
    for name, value in tables.items():
        if not isinstance(value, dict):
            lines.insert(0, f"{quoted(name)} = {as_toml(value)}")
            continue
        lines.append(f"[{quoted(name)}]")
        lines += [f"{quoted(key)} = {as_toml(each)}" for key, each in value.items()]
    return "\n".join(lines)


Try = Callable[..., Loaded | None]


@pytest.fixture(scope="module")
def attempt(tmp_path_factory: pytest.TempPathFactory) -> Try:
    """Load what is given; None for a refusal, which must name what it is about."""
    file = tmp_path_factory.mktemp("settings") / "config.toml"

    def attempted(text: bytes = b"", variables: Mapping[str, str] | None = None) -> Loaded | None:
        file.write_bytes(text)
        try:
            found = load(str(file), variables or {}, file.parent)
        except ConfigError as error:
            assert_it_names_the_place(error, file)
            return None
        assert_it_can_be_handed_over(found)
        return found

    return attempted


def assert_it_names_the_place(error: ConfigError, file: Path) -> None:
    assert error.problems
    for problem in error.problems:
        told = str(problem)
        assert problem.path or problem.where, told
        assert problem.where or "." in problem.path, told
        assert problem.fix.endswith((".", "?", "]")), told
        assert len(problem.found) < 300
        if problem.path == str(file):
            assert re.search(r"line \d+|end of document|UTF-8|deep|digits", problem.found), told


def assert_it_can_be_handed_over(found: Loaded) -> None:
    config = found.config
    for slug in ("usps", *config.limits.slugs):
        rules = rules_for(config, Slug(slug))
        assert 2 * rules.call_timeout_seconds <= rules.lease_seconds <= 60
    Registry(courier_settings(config).values())
    redis_address(config)
    secrets_of(config)
    for path in found.origins:
        assert is_a_setting(path), path


def is_a_setting(path: Setting) -> bool:
    return kind_at(path) is not None


@examples(20)
@given(st.binary(max_size=120) | st.text(max_size=120).map(str.encode))
@example(b"a = " + b"[" * 5000)
@example(b"a = " + b"9" * 5000)
@example(b"[worker]\nprocesses = 0x" + b"f" * 5000)
def test_any_text_is_read_or_refused(attempt: Try, written: bytes) -> None:
    attempt(written)


@examples(25)
@given(damaged(EVERYTHING, PIECES))
def test_a_damaged_file_is_read_or_refused(attempt: Try, written: bytes) -> None:
    attempt(written)


@examples(50)
@given(DOCUMENTS)
def test_any_document_is_read_or_refused(attempt: Try, tables: dict[str, Any]) -> None:
    attempt(document(tables).encode("utf-8", "surrogatepass"))


@examples(80)
@given(st.dictionaries(VARIABLES, GIVEN, max_size=4))
@example({"TRACKER_WORKER__PROCESSES": "\udcff"})
@example({"TRACKER_LOG__LEVEL": "\udcff"})
@example({"TRACKER_LIMITS__SLUGS": "[" * 5000})
@example({"TRACKER_": "5"})
@example({"TRACKER___BEANSTALKD": ""})
@example({"TRACKER_REDSI__URL": "redis://h"})
def test_any_environment_is_read_or_refused(attempt: Try, variables: dict[str, str]) -> None:
    attempt(variables=variables)


@examples(30)
@given(DOCUMENTS, st.dictionaries(VARIABLES, GIVEN, max_size=3))
def test_any_environment_over_any_document_is_read_or_refused(
    attempt: Try, tables: dict[str, Any], variables: dict[str, str]
) -> None:
    attempt(document(tables).encode("utf-8", "surrogatepass"), variables)


PIECES_OF_HOSTS = [*"ab0./:[]%-_@?#\\ é\u3002", "xn--", "..", ":0", ":65536", "[::1]"]
HOSTS = st.lists(st.sampled_from(PIECES_OF_HOSTS), max_size=8).map("".join)


@examples(800)
@given(st.sampled_from(["http://", "https://", "ftp://"]), HOSTS)
@example("http://", "xn--")
@example("http://", "\u3002")
@example("http://", "a\\b")
def test_couriers_can_be_asked_at_every_address_that_is_accepted(scheme: str, host: str) -> None:
    url = f"{scheme}{host}"
    with contextlib.suppress(BadAddress):
        check_http(url)
        assert root(url)  # raises RequestRefused for what no call could use
