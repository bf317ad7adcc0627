"""What holds, and where it came from."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from service.config.load import Loaded, load
from service.config.problems import ConfigError
from service.config.schema import Config

NOWHERE = Path("/nonexistent")


def written(folder: Path, text: str) -> Path:
    file = folder / "config.toml"
    file.write_text(text, encoding="utf-8")
    return file


def loaded(folder: Path, text: str = "", **variables: str) -> Loaded:
    return load(str(written(folder, text)), variables, NOWHERE)


def test_without_any_file_every_setting_has_its_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = load(None, {}, NOWHERE)
    assert found.config == Config()
    assert found.file is None
    assert found.origins == {}


def test_the_file_on_the_command_line_wins_over_the_one_in_the_environment(tmp_path: Path) -> None:
    one, other = tmp_path / "one.toml", tmp_path / "other.toml"
    one.write_text("[worker]\nprocesses = 1\n")
    other.write_text("[worker]\nprocesses = 2\n")
    variables = {"TRACKER_CONFIG": str(other)}
    assert load(str(one), variables, NOWHERE).config.worker.processes == 1
    assert load(None, variables, NOWHERE).config.worker.processes == 2


def test_the_file_here_wins_over_the_one_beside_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, beside = tmp_path / "here", tmp_path / "beside"
    here.mkdir()
    beside.mkdir()
    monkeypatch.chdir(here)
    written(beside, "[worker]\nprocesses = 2\n")
    assert load(None, {}, beside).config.worker.processes == 2
    written(here, "[worker]\nprocesses = 3\n")
    assert load(None, {}, beside).config.worker.processes == 3


def test_a_named_file_that_is_not_there_is_an_error_and_not_a_default(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        load(str(tmp_path / "absent.toml"), {}, NOWHERE)


def test_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    found = loaded(
        tmp_path,
        '[redis]\nurl = "redis://a/0"\n[limits]\nconcurrent = 5\n',
        TRACKER_REDIS__URL="redis://b/1",
        TRACKER_LIMITS__CONCURRENT="7",
    )
    assert found.config.redis.url == "redis://b/1"
    assert found.config.limits.concurrent == 7
    assert found.origins["redis", "url"] == "TRACKER_REDIS__URL"


def test_a_slug_in_a_variable_gets_its_hyphens_back(tmp_path: Path) -> None:
    found = loaded(
        tmp_path,
        TRACKER_COURIERS__ROYAL_MAIL__CLIENT_ID="abcd",
        TRACKER_LIMITS__SLUGS__LA_POSTE_COLISSIMO__PER_SECOND="10",
        TRACKER_RECHECK__SLUGS__DPD_UK__IN_TRANSIT_HOURS="12",
    ).config
    assert found.couriers["royal-mail"].credentials == {"client_id": "abcd"}
    assert found.limits.slugs["la-poste-colissimo"].per_second == 10
    assert found.recheck.slugs["dpd-uk"].in_transit_hours == 12


def test_a_table_in_a_variable_is_json_and_single_keys_win_over_it(tmp_path: Path) -> None:
    found = loaded(
        tmp_path,
        "[limits.slugs.usps]\nper_hour = 60\n",
        TRACKER_LIMITS__SLUGS='{"royal-mail": {"concurrent": 3, "per_day": 50}}',
        TRACKER_LIMITS__SLUGS__ROYAL_MAIL__CONCURRENT="4",
    ).config
    assert found.limits.slugs["royal-mail"].concurrent == 4
    assert found.limits.slugs["royal-mail"].per_day == 50
    assert found.limits.slugs["usps"].per_hour == 60


def test_lists_in_variables_are_json(tmp_path: Path) -> None:
    found = loaded(tmp_path, TRACKER_BEANSTALKD__SERVERS='["a:11300", "b:11300"]')
    assert found.config.beanstalkd.servers == ("a:11300", "b:11300")


def test_a_secret_is_read_from_a_file_without_its_line_end(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(" s3cret \n")
    found = loaded(tmp_path, TRACKER_COURIERS__USPS__CLIENT_SECRET_FILE=str(secret))
    assert found.config.couriers["usps"].credentials == {"client_secret": " s3cret "}
    origin = found.origins["couriers", "usps", "client_secret"]
    assert origin == f"TRACKER_COURIERS__USPS__CLIENT_SECRET_FILE -> {secret}"


def test_the_origin_of_a_value_is_the_line_it_begins_on(tmp_path: Path) -> None:
    text = """\
# a comment
[beanstalkd]   # another
servers = [
  "a:1",   # with = and [brackets]
  "b:2",
]
allow_loss = true
[limits.slugs."royal-mail"]
concurrent = 3
[limits]
per_second = 1
slugs.usps = { per_hour = 60 }
"""
    found = loaded(tmp_path, text)
    lines = {path: where.rpartition(":")[2] for path, where in found.origins.items()}
    assert lines["beanstalkd", "servers"] == "3"
    assert lines["beanstalkd", "allow_loss"] == "7"
    assert lines["limits", "slugs", "royal-mail", "concurrent"] == "9"
    assert lines["limits", "per_second"] == "11"
    assert lines["limits", "slugs", "usps", "per_hour"] == "12"
    assert "worker" not in {path[0] for path in found.origins}


def test_a_byte_order_mark_and_foreign_line_ends_do_no_harm(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_bytes(b"\xef\xbb\xbf[worker]\r\nprocesses = 3\r\n")
    assert load(str(file), {}, NOWHERE).config.worker.processes == 3


def test_no_test_meets_the_keys_and_the_spool_of_a_door_that_runs_in_this_checkout() -> None:
    ingest = load(None, os.environ, NOWHERE).config.ingest
    for kept in (ingest.keys, ingest.spool):
        assert Path(kept).is_absolute()
        assert not Path(kept).is_relative_to(Path(__file__).parents[2])
