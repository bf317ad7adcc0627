"""What verifies a webhook: the official verifiers, and each example, which takes only genuine ones.

Signatures are made by the product, of a text that is not ASCII, by two live secrets. The example
for relayed requests takes the same ones, under the names that a relay gives them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from devstack.command import run_to_end
from devstack.nursery import Nursery
from devstack.servers import free_port
from service.worker.deliveries.signing import new_secret, standard

EXAMPLES = Path(__file__).parents[2] / "examples"
BODY = '{"type":"parcel.changed","data":{"title":"Bücher"}}'.encode()
SOON = 20.0
TOO_OLD = 400
OFFICIAL = """
const { Webhook } = require("standardwebhooks");
const { secret, headers, body } = JSON.parse(process.argv[1]);
try {
  console.log(new Webhook(secret).verify(body, headers).type);
} catch (error) {
  console.log(error.name);
}
"""

Receiver = Callable[[Mapping[str, str], bytes], int]


def signed(*live: str, ago: int = 0) -> dict[str, str]:
    return dict(standard(live, "DELIVERY", int(time.time()) - ago, BODY))


@pytest.fixture
def secret() -> str:
    return new_secret()


def _program(name: str, *command: str) -> list[str]:
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    return [name, *command]


@pytest.fixture(params=["python", "node", "php", "relay"])
def receiver(request: pytest.FixtureRequest, secret: str, tmp_path: Path) -> Iterator[Receiver]:
    """An example that takes webhooks; gives the status with which it answers."""
    port = free_port()
    command = {
        "python": lambda: [sys.executable, str(EXAMPLES / "verify_webhook.py"), str(port)],
        "node": lambda: _program("node", str(EXAMPLES / "verify_webhook.js"), str(port)),
        "php": lambda: _program(
            "php", "-S", f"127.0.0.1:{port}", str(EXAMPLES / "verify_webhook.php")
        ),
        "relay": lambda: [sys.executable, str(EXAMPLES / "verify_relay.py"), str(port)],
    }[request.param]()
    prefix = "relay-" if request.param == "relay" else "webhook-"
    with Nursery() as nursery:
        environment = {**os.environ, "WEBHOOK_SECRET": secret, "RELAY_SECRET": secret}
        process = nursery.start(command, tmp_path / "log", environment)

        def post(headers: Mapping[str, str], body: bytes) -> int:
            named = {name.replace("webhook-", prefix): value for name, value in headers.items()}
            asked = urllib.request.Request(f"http://127.0.0.1:{port}/", body, named)
            deadline = time.monotonic() + SOON
            while True:
                try:
                    with urllib.request.urlopen(asked, timeout=5) as answer:  # noqa: S310 - as above
                        return int(answer.status)
                except urllib.error.HTTPError as error:
                    return error.code
                except OSError:
                    assert time.monotonic() < deadline, (tmp_path / "log").read_text()
                    time.sleep(0.05)

        yield post
        process.terminate()
        process.wait()


def test_an_example_takes_a_genuine_webhook_and_no_other(receiver: Receiver, secret: str) -> None:
    genuine = signed(new_secret(), secret)
    assert receiver(genuine, BODY) == 204

    forged = {
        "another secret": signed(new_secret()),
        "too old": signed(secret, ago=TOO_OLD),
        "of the future": signed(secret, ago=-TOO_OLD),
        "another id": genuine | {"webhook-id": "OTHER"},
        "another time": genuine | {"webhook-timestamp": str(int(genuine["webhook-timestamp"]) + 1)},
        "no time": genuine | {"webhook-timestamp": ""},
        "no signature": genuine | {"webhook-signature": ""},
        "half of it": genuine | {"webhook-signature": signed(secret)["webhook-signature"][:20]},
        "not signed": {},
    }
    assert {name: receiver(headers, BODY) for name, headers in forged.items()} == dict.fromkeys(
        forged, 401
    )
    assert receiver(genuine, BODY + b" ") == 401


@pytest.mark.parametrize(
    ("example", "name"),
    [
        ("verify_webhook.py", "WEBHOOK_SECRET"),
        ("verify_webhook.js", "WEBHOOK_SECRET"),
        ("verify_relay.py", "RELAY_SECRET"),
    ],
)
def test_an_example_says_that_it_needs_the_secret(example: str, name: str) -> None:
    program = _program("node")[0] if example.endswith("js") else sys.executable
    without = {key: text for key, text in os.environ.items() if key != name}
    done = run_to_end([program, EXAMPLES / example, "8000"], without, EXAMPLES)

    assert done.returncode == 1
    assert done.stderr.startswith(f"{name} is not set")
    assert len(done.stderr.splitlines()) == 1


def test_the_official_verifier_of_python_accepts_what_is_signed_by_either_live_secret() -> None:
    live = new_secret(), new_secret()
    for each in live:
        assert Webhook(each).verify(BODY, signed(*live))["data"] == {"title": "Bücher"}

    for other, headers in ((new_secret(), signed(*live)), (live[0], signed(live[0], ago=TOO_OLD))):
        with pytest.raises(WebhookVerificationError):
            Webhook(other).verify(BODY, headers)


def test_the_official_verifier_of_node_accepts_what_is_signed_by_either_live_secret(
    node_example: Path,
) -> None:
    live = new_secret(), new_secret()

    def verified(secret: str, headers: Mapping[str, str]) -> str:
        asked = json.dumps({"secret": secret, "headers": headers, "body": BODY.decode()})
        # From standard input, so that packages are found from the folder in which it runs.
        done = subprocess.run(
            ["node", "--input-type=commonjs", "-", asked],
            input=OFFICIAL.replace("argv[1]", "argv[2]"),
            cwd=node_example,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    assert [verified(each, signed(*live)) for each in live] == ["parcel.changed"] * 2
    assert verified(new_secret(), signed(*live)) == "WebhookVerificationError"
