"""Services of types relay and courier: made, changed, tested and deleted by their account."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from services_ground import KEYS, NOW, SHOP, TO, WHO, lower, make

from devstack.kinds import BEANSTALKD, Durability
from devstack.servers import running
from service.config.schema import Beanstalkd, Config, Ingest
from service.operator import accounts
from service.operator.connections import Collections
from service.operator.health import Grade, relay_findings
from service.operator.ingest_labels import INGEST_KEY, ingest_key
from service.operator.relays import addresses_of, ingest_members, label_of
from service.operator.services import BadWish, ServiceConflict, Services, seal_again
from service.worker.deliveries.foreign_request import foreign_in
from service.worker.deliveries.ingest_label import is_genuine, parse_label
from service.worker.deliveries.secret_box import SecretBox, new_key
from service.worker.deliveries.service import Handshake, Service, ServiceState, ServiceType
from tracking.request import MAIN

INGEST: dict[str, Any] = {
    "handshake": "meta",
    "verify_token": "token-4711",
    "status": 200,
    "body": "ok",
    "per_second": 7,
    "bytes_per_second": 2_048,
    "dedupe_header": "X-Event",
}
COURIER: dict[str, Any] = {"courier": "dhl", "push_secret": "secret-4711"}


def make_relay(ours: Services, name: str = "erp", **wishes: Any) -> Service:
    return make(ours, name, **({"type": "relay"} | wishes)).service


def make_courier(ours: Services, name: str = "dhl", **ingest: Any) -> Service:
    wishes = {"type": "courier", "ingest": COURIER | ingest}
    return ours.make(WHO, MAIN, name, wishes).service


def test_a_relay_has_a_genuine_label_for_its_account_and_name(
    ours: Services, stores: Collections
) -> None:
    accounts.add_account(stores, SHOP)
    made = ours.make(WHO, SHOP, "erp", TO | {"type": "relay"}).service

    label = parse_label(str(label_of(made)))
    assert label
    assert (label.account, label.service) == (SHOP, "erp")
    assert is_genuine(label, ingest_key(stores))
    assert made.type is ServiceType.RELAY


def test_a_service_is_of_the_type_webhook_where_nothing_else_is_said(ours: Services) -> None:
    made = make(ours).service

    assert (made.type, made.ingest.random) == (ServiceType.WEBHOOK, "")


def test_a_courier_is_answered_200_where_nothing_else_is_said(ours: Services) -> None:
    assert make_courier(ours).ingest.status == 200
    assert make_relay(ours).ingest.status == 202


def test_a_relay_takes_requests_as_was_wished_and_its_token_is_kept_as_a_hash(
    ours: Services, stores: Collections
) -> None:
    made = make_relay(ours, ingest=INGEST)

    ingest = ours.named(MAIN, "erp").ingest
    assert ingest == made.ingest
    assert (ingest.handshake, ingest.status, ingest.body) == (Handshake.META, 200, "ok")
    assert (ingest.per_second, ingest.bytes_per_second) == (7, 2_048)
    assert ingest.dedupe_header == "X-Event"
    assert ingest.token_sha256 == hashlib.sha256(b"token-4711").hexdigest()
    [kept] = stores.services.find()
    told = [kept, ingest_members(made), *stores.audit.find()]
    assert "token-4711" not in json.dumps(told, default=str)


def test_of_how_a_relay_takes_requests_what_is_not_named_stays(ours: Services) -> None:
    made = make_relay(ours, ingest=INGEST)

    changed = ours.change(WHO, MAIN, "erp", {"ingest": {"status": 204, "verify_token": ""}}).service

    assert changed.ingest == replace(made.ingest, status=204, token_sha256="")


def test_the_type_of_a_service_never_changes(ours: Services) -> None:
    make_relay(ours)

    with pytest.raises(BadWish, match="no such setting") as caught:
        ours.change(WHO, MAIN, "erp", {"type": "webhook"})
    assert caught.value.parameter == "type"


@pytest.mark.parametrize(
    ("wishes", "parameter"),
    [
        ({"type": "mailbox"}, "type"),
        ({"type": "relay", "destination": ""}, "destination"),
        ({"type": "relay", "events": ["parcel.changed"]}, "events"),
        ({"type": "relay", "slugs": ["usps"]}, "slugs"),
        ({"type": "relay", "tags": []}, "tags"),
        ({"type": "relay", "format": "aftership"}, "format"),
        ({"type": "relay", "ingest": {"courier": "dhl"}}, "ingest.courier"),
        ({"type": "relay", "ingest": {"push_secret": "x"}}, "ingest.push_secret"),
        ({"type": "relay", "ingest": {"status": 302}}, "ingest.status"),
        ({"type": "relay", "ingest": {"handshake": "github"}}, "ingest.handshake"),
        ({"type": "relay", "ingest": {"body": "é" * 513}}, "ingest.body"),
        ({"type": "relay", "ingest": {"body": "a" * 1_025}}, "ingest.body"),
        ({"type": "relay", "ingest": {"per_second": 0}}, "ingest.per_second"),
        ({"type": "relay", "ingest": {"bytes_per_second": 1}}, "ingest.bytes_per_second"),
        ({"type": "relay", "ingest": {"dedupe_header": "X Y"}}, "ingest.dedupe_header"),
        ({"type": "relay", "ingest": {"dedupe_header": "X\n"}}, "ingest.dedupe_header"),
        ({"type": "relay", "ingest": {"verify_token": "a b"}}, "ingest.verify_token"),
        ({"type": "relay", "ingest": {"random": "x"}}, "ingest.random"),
        ({"type": "relay", "ingest": 5}, "ingest"),
        ({"type": "courier"}, "ingest.courier"),
        ({"type": "courier", "ingest": {"courier": "pigeon"}}, "ingest.courier"),
        ({"type": "courier", "ingest": COURIER, "events": ["parcel.changed"]}, "events"),
        ({"ingest": {}}, "ingest"),
        ({"events": ["relay.request"]}, "events"),
    ],
    ids=str,
)
def test_what_a_type_has_not_is_refused_by_its_name_and_nothing_is_made(
    ours: Services, stores: Collections, wishes: dict[str, Any], parameter: str
) -> None:
    with pytest.raises(BadWish) as caught:
        make(ours, **wishes)

    assert caught.value.parameter == parameter
    assert stores.services.count_documents({}) == 0


def test_a_relay_without_a_destination_is_not_made(ours: Services) -> None:
    with pytest.raises(BadWish, match="destination"):
        ours.make(WHO, MAIN, "erp", {"type": "relay"})
    make_relay(ours)
    with pytest.raises(BadWish, match="destination"):
        ours.change(WHO, MAIN, "erp", {"destination": ""})


def test_a_courier_service_needs_no_destination_and_its_secret_is_kept_encrypted(
    ours: Services, stores: Collections
) -> None:
    made = make_courier(ours)

    assert (made.destination, made.ingest.courier) == ("", "dhl")
    [kept] = stores.services.find()
    assert "secret-4711" not in json.dumps([kept, *stores.audit.find()], default=str)
    assert SecretBox.of(KEYS).opened(made.ingest.push_secret, made.id) == "secret-4711"
    changed = ours.change(WHO, MAIN, "dhl", {"ingest": {"push_secret": "new"}} | TO).service
    assert SecretBox.of(KEYS).opened(changed.ingest.push_secret, made.id) == "new"
    assert changed.destination == TO["destination"]


def test_secrets_of_couriers_are_encrypted_again_and_go_with_their_service(
    ours: Services, stores: Collections, config: Config
) -> None:
    made, newer = make_courier(ours), f"{new_key('b')} {KEYS}"

    assert seal_again(lower(config, keys=newer), stores, WHO) == (2, 0)

    sealed = ours.named(MAIN, "dhl").ingest.push_secret
    assert sealed.startswith("b:")
    assert SecretBox.of(newer).opened(sealed, made.id) == "secret-4711"
    ours.delete(WHO, MAIN, "dhl")
    [kept] = stores.services.find()
    assert kept["ingest"]["push_secret"] == ""
    assert kept["ingest"]["random"] == made.ingest.random


def test_the_addresses_of_a_relay_are_a_host_where_there_is_a_domain_and_a_path(
    ours: Services, config: Config
) -> None:
    made = make_relay(ours)
    label = label_of(made)

    assert addresses_of(config, made) == [f"http://127.0.0.1:8081/in/{label}/"]
    ingest = Ingest(domain="in.example", listen="127.0.0.1:9")
    with_domain = Config(ingest=ingest)
    assert addresses_of(with_domain, made) == [
        f"https://{label}.in.example/",
        f"http://127.0.0.1:9/in/{label}/",
    ]
    assert addresses_of(with_domain, make(ours, "hook").service) == []


def test_a_label_whose_key_was_lost_is_told_of(
    ours: Services, stores: Collections, config: Config
) -> None:
    label = label_of(make_relay(ours))
    make(ours, "hook")
    assert relay_findings(config) == []

    stores.keys.delete_one({"_id": INGEST_KEY})

    [lost] = relay_findings(config)
    assert str(label) in lost.what
    ingest_key(stores)  # somebody makes another one
    assert relay_findings(config) == [lost]


def test_a_server_that_does_not_take_all_that_comes_to_a_relay_is_named_with_the_fix(
    ours: Services, config: Config
) -> None:
    def arguments(port: int, folder: Path, durability: Durability) -> list[str]:
        return [*BEANSTALKD.arguments(port, folder, durability), "-z", "65535"]

    with running(replace(BEANSTALKD, arguments=arguments)) as server:
        with_server = msgspec.structs.replace(config, beanstalkd=Beanstalkd(servers=(server.url,)))
        before = relay_findings(with_server)
        make_relay(ours)
        [small] = relay_findings(with_server)

    assert (before, small.grade) == ([], Grade.UNSURE)
    assert server.url in small.what
    assert "-z 1310720" in small.fix


def test_a_test_of_a_relay_is_a_relayed_request(ours: Services, stores: Collections) -> None:
    made = make_relay(ours)

    put = ours.test(WHO, MAIN, "erp")

    assert (put.type, put.state, put.service) == ("relay.request", "open", made.id)
    event = stores.events.find_one({"_id": put.event})
    assert event
    request = foreign_in(event)
    assert (request.label, request.method, request.body) == (
        label_of(made),
        "POST",
        b'{"test":true}',
    )


def test_what_has_no_destination_has_no_test(ours: Services) -> None:
    make_courier(ours)

    with pytest.raises(ServiceConflict, match="no destination"):
        ours.test(WHO, MAIN, "dhl")


def test_a_relay_is_paused_rotated_and_deleted_as_other_services_are(
    ours: Services, stores: Collections
) -> None:
    first = make(ours, type="relay")

    paused = ours.change(WHO, MAIN, "erp", {"state": "paused"}).service
    rotated = ours.rotate(WHO, MAIN, "erp")
    put = ours.test(WHO, MAIN, "erp")
    ours.delete(WHO, MAIN, "erp")

    assert paused.state is ServiceState.PAUSED
    assert rotated.secret != first.secret
    assert len(rotated.service.secrets) == 2
    [delivery] = stores.deliveries.find()
    assert (delivery["_id"], delivery["state"]) == (put.id, "cancelled")
    again = make_relay(ours)
    assert again.ingest.random != first.service.ingest.random


def test_a_service_of_a_version_before_is_a_webhook_service_and_may_be_changed(
    ours: Services, stores: Collections
) -> None:
    make(ours)
    stores.services.update_one({}, {"$unset": {"type": "", "ingest": ""}})

    changed = ours.change(WHO, MAIN, "erp", {"per_second": 3}).service
    ours.delete(WHO, MAIN, "erp")

    assert (changed.type, changed.per_second) == (ServiceType.WEBHOOK, 3)
    assert changed.made_at >= NOW
    assert ours.of(MAIN) == []
