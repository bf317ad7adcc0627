"""`[webhooks]`: what is refused, and how that is told."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from config_problems import problem

from service.config.address import secrets_of
from service.config.load import load
from service.config.schema import Config, Limits, Webhooks, delivery_lease_seconds, silence_seconds
from service.worker.deliveries.secret_box import SecretBox, new_key

KEY = "a:" + base64.b64encode(bytes(range(32))).decode()


@pytest.mark.parametrize(
    ("text", "setting", "fix"),
    [
        ('[webhooks]\nkeys = "abc"\n', "webhooks.keys", "service key"),
        (f'[webhooks]\nkeys = "{KEY}="\n', "webhooks.keys", "service key"),
        (f'[webhooks]\nkeys = "{KEY} {KEY}"\n', "webhooks.keys", "another name"),
        ("[webhooks]\ntimeout_seconds = 26\n", "webhooks.timeout_seconds", "15.0"),
        ('[webhooks]\nown_names = ["https://a.example"]\n', "webhooks.own_names", "lower case"),
        ("[webhooks.allowed.Shop]\nhttp = true\n", "webhooks.allowed.Shop", "account list"),
        (
            '[webhooks.allowed.shop]\nnetworks = ["10.1.0.1/16"]\n',
            "webhooks.allowed.shop.networks",
            "10.1.0.0/16",
        ),
        ("[webhooks.allowed.shop]\nports = [0]\n", "webhooks.allowed.shop.ports", "[8080]"),
    ],
)
def test_what_cannot_hold_is_refused_with_the_fix(
    tmp_path: Path, text: str, setting: str, fix: str
) -> None:
    found = problem(tmp_path, text)

    assert found.path == setting
    assert fix in found.fix
    assert KEY.partition(":")[2] not in str(found)


def test_a_key_is_a_secret_and_may_stand_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(f"{KEY}\n{new_key('b')}\n")

    found = load(None, {"TRACKER_WEBHOOKS__KEYS_FILE": str(file)}, tmp_path).config

    assert SecretBox.of(found.webhooks.keys)
    assert KEY in secrets_of(found)


@pytest.mark.parametrize("lease", [10.0, 60.0])
@pytest.mark.parametrize("timeout", [1.0, 15.0, 25.0])
def test_the_lease_of_a_delivery_outlasts_its_call_by_what_a_worker_may_hang(
    lease: float, timeout: float
) -> None:
    config = Config(
        limits=Limits(lease_seconds=lease, call_timeout_seconds=lease / 4),
        webhooks=Webhooks(timeout_seconds=25.0),
    )

    found = delivery_lease_seconds(config, timeout)

    assert found <= 60
    assert found - (timeout + 5) >= silence_seconds(config)
