"""DHL Parcel DE Tracking. The answers are written after DHL's sandbox and its table of codes."""

from __future__ import annotations

from xml.sax.saxutils import quoteattr

import pytest
from aiohttp import encode_basic_auth, web
from loopback import Courier, FetchFor, RecordingPermit

from couriers import dhl_germany
from couriers.dhl_germany.codes import (
    EVENTS,
    REASONS,
    SILENT,
    SILENT_REASONS,
    SILENT_STANDARD,
    STANDARD,
)
from couriers.reading.xml import read_xml
from tracking.checkpoint import Tag, Tracking
from tracking.errors import (
    AuthFailed,
    CourierDown,
    CourierError,
    InvalidNumber,
    NoCredentials,
    RateLimited,
    RequestRefused,
    UnreadableAnswer,
    WrongNumber,
)
from tracking.request import Number, Slug, TrackingRequest

NUMBER = "00340000000000000013"


def data(name: str, *inside: str, **attributes: str) -> str:
    written = {"name": name} | {key.replace("_", "-"): each for key, each in attributes.items()}
    plain = " ".join(f"{key}={quoteattr(each)}" for key, each in written.items())
    return f"<data {plain}>{''.join(inside)}</data>"


def event(at: str, codes: str, said: str = "", **more: str) -> str:
    ice, ric, coarse = codes.split()
    told = {"event_timestamp": at, "event_status": said, "ice": ice, "ric": ric}
    return data("piece-event", **(told | {"standard_event_code": coarse} | more))


ANNOUNCED = event("12.01.2026 10:00", "PARCV NRQRD VA", "The instruction data was provided")
HANDED_IN = event(
    "12.01.2026 16:30", "SHRCU SERPT ES", event_location="Bremen", event_country="Germany"
)
SORTED = event("13.01.2026 04:12", "ULFMV UNLDD EE", event_location="Neuwied", event_country="DE")
LOADED = event("14.01.2026 07:05", "SRTED NRQRD PO", "Loaded onto the delivery vehicle")
DELIVERED = event("14.01.2026 11:41", "DLVRD OTHER ZU", "Successfully delivered")


def parcel(*events: str, **more: str) -> str:
    told = {"error_status": "0", "piece_code": NUMBER} | more
    return data("piece-shipment", data("piece-event-list", *events), **told)


def answer(*parcels: str, **more: str) -> bytes:
    return data("piece-shipment-list", *parcels, **({"code": "0"} | more)).encode()


def parse(body: bytes, status: int = 200) -> Tracking:
    return dhl_germany.parse(status, {}, body, NUMBER)


def test_a_delivered_parcel() -> None:
    told = parse(
        answer(
            parcel(
                *(ANNOUNCED, HANDED_IN, SORTED, LOADED, DELIVERED),
                recipient_name="Muster",
                origin_country="DE",
                dest_country="AT",
            )
        )
    )

    assert (told.tag, told.subtag) == (Tag.DELIVERED, "Delivered_001")
    assert (told.delivered_at, told.delivered_at_utc) == ("2026-01-14T11:41:00", None)
    assert (told.signed_by, told.origin, told.destination) == ("Muster", "Germany", "Austria")
    tags = [point.tag for point in told.checkpoints]
    assert tags[::4] == [Tag.INFO_RECEIVED, Tag.DELIVERED]
    assert tags[1:4] == [Tag.IN_TRANSIT, Tag.IN_TRANSIT, Tag.OUT_FOR_DELIVERY]
    bremen = told.checkpoints[1]
    assert (bremen.city, bremen.country_iso3, bremen.raw_tag) == ("Bremen", "DEU", "SHRCU")
    assert told.unknown_codes == ()


def test_a_parcel_under_way() -> None:
    told = parse(answer(parcel(ANNOUNCED, HANDED_IN, SORTED, delivery_date="2026-01-14")))

    assert (told.tag, told.subtag) == (Tag.IN_TRANSIT, "InTransit_003")
    assert (told.expected_delivery, told.delivered_at, told.signed_by) == ("2026-01-14", None, None)


@pytest.mark.parametrize(
    ("codes", "said", "subtag"),
    [
        ("LDTMV MVMTV AA", "", "InTransit_007"),
        ("LDTMV SERPT ZF", "", "InTransit_001"),
        ("SRTED NRQRD PO", "", "OutForDelivery_001"),
        ("HLDCC LDPCK LA", "", "AvailableForPickup_001"),
        ("CNRFC SERPT ZF", "", "AvailableForPickup_001"),
        ("HLDCC NTCCN ZF", "", "Exception_008"),
        ("DLVRD ACCPK ZU", "", "Delivered_002"),
        ("DLVRD NGHBR ZU", "", "Delivered_005"),
        ("DLVRD OTHER ZU", "Delivered to the parcel shop", "AvailableForPickup_001"),
        ("DLVRD CUSTM ZU", "", "InTransit_006"),
        ("DLVRD HNDTC ZU", "", "InTransit_009"),
        ("NTDEL NHOME ZN", "", "AttemptFail_002"),
        ("NTDEL BDADD ZN", "", "Exception_007"),
        ("NTDEL WRGPN ZN", "", "AttemptFail_001"),
        ("DLVRF NTORD ZN", "", "Exception_003"),
        ("EXPHD FRMJR BV", "", "Exception_005"),
        ("HLDCU NORSN ZO", "", "Exception_004"),
        ("RETRN NHOME ZN", "", "Exception_010"),
        ("RCCLS LOSTX ZN", "", "Exception_013"),
        # Destroyed, and the truck of a pallet has arrived: "delivery successful".
        ("DSPSD MOVED ZU", "", "Exception_001"),
        ("MVARR NRQRD ZU", "", "InTransit_003"),
        ("ZZZZZ NRQRD ZU", "Delivered by a drone", "InTransit_001"),
        ("ZZZZZ NRQRD BV", "Out for delivery", "OutForDelivery_001"),
    ],
)
def test_what_its_codes_mean(codes: str, said: str, subtag: str) -> None:
    told = parse(answer(parcel(event("14.01.2026 08:00", codes, said))))

    assert told.subtag == subtag
    assert told.unknown_codes == (("ZZZZZ",) if codes.startswith("ZZZZZ") else ())


def test_a_deleted_delivery_is_none() -> None:
    told = parse(answer(parcel(DELIVERED, event("14.01.2026 11:45", "STORN NRQRD DD"))))

    assert (told.tag, told.delivered_at) == (Tag.IN_TRANSIT, None)


@pytest.mark.parametrize("codes", ["DLVRD CODRP ZU", "PMTCS NRQRD GT", "ADVIS MSGST DD"])
def test_money_and_notices_after_a_delivery_do_not_undo_it(codes: str) -> None:
    told = parse(answer(parcel(DELIVERED, event("16.01.2026 08:00", codes))))

    assert told.delivered_at == "2026-01-14T11:41:00"


@pytest.mark.parametrize(
    ("by_event", "by_parcel"), [("true", "true"), ("true", "false"), ("false", "true"), ("", "1")]
)
def test_what_arrives_on_its_way_back_is_returned_and_not_delivered(
    by_event: str, by_parcel: str
) -> None:
    back = event("20.01.2026 09:00", "DLVRD ACCPT ZU", ruecksendung=by_event)
    told = parse(answer(parcel(ANNOUNCED, back, ruecksendung=by_parcel, recipient_name="A Shop")))

    assert (told.tag, told.subtag, told.active) == (Tag.EXCEPTION, "Exception_011", False)
    assert (told.delivered_at, told.signed_by) == (None, None)


def test_the_way_back_begins_with_its_first_event() -> None:
    there = event("13.01.2026 08:00", "LDTMV MVMTV AA", ruecksendung="false")
    back = event("15.01.2026 08:00", "LDTMV MVMTV AA", ruecksendung="true")
    told = parse(answer(parcel(there, back, ruecksendung="true")))

    assert [point.subtag for point in told.checkpoints] == ["InTransit_007", "Exception_010"]


def test_events_may_stand_beside_their_parcel_under_names_without_hyphens() -> None:
    told = parse(
        answer(
            data("pieceshipment", piece_code=NUMBER, piece_id="1"),
            data("pieceeventlist", LOADED, piece_id="2"),
            data("pieceeventlist", ANNOUNCED, DELIVERED, piece_id="1"),
        )
    )

    assert (told.delivered, len(told.checkpoints)) == (True, 2)


def test_a_parcel_without_events_stands_as_its_own_status_says() -> None:
    told = parse(answer(parcel(status_timestamp="12.01.2026 10:00", ice="PARCV", status="Told")))

    assert (told.tag, len(told.checkpoints)) == (Tag.INFO_RECEIVED, 1)


def test_the_standard_code_counts_where_there_is_no_other() -> None:
    alone = data("piece-event", event_timestamp="14.01.2026 08:00", standard_event_code="ZU")
    told = parse(answer(parcel(alone)))

    assert (told.subtag, told.checkpoints[0].raw_tag) == ("Delivered_001", "ZU")


def test_of_a_number_that_was_used_again_the_newest_counts_alone() -> None:
    again = event("13.09.2026 04:12", "ULFMV UNLDD EE")
    told = parse(answer(parcel(DELIVERED), parcel(again)))

    assert (told.tag, len(told.checkpoints)) == (Tag.IN_TRANSIT, 1)


@pytest.mark.parametrize(
    "body", [answer(code="100"), answer(code="200"), answer(parcel(error_status="100"))]
)
def test_nothing_known_is_not_found_yet(body: bytes) -> None:
    assert parse(body).tag is Tag.PENDING


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (401, b'{"title": "Unauthorized"}', AuthFailed),
        (200, answer(code="5", error="login failed"), AuthFailed),
        (200, answer(code="62"), AuthFailed),
        (200, answer(code="41"), InvalidNumber),
        (200, answer(parcel(error_status="41")), InvalidNumber),
        (200, answer(code="45"), RequestRefused),
        (429, b"", RateLimited),
        (500, b"", CourierDown),
        (200, answer(code="999"), UnreadableAnswer),
        (200, answer(), UnreadableAnswer),
        (200, answer(parcel()), UnreadableAnswer),
        (200, answer(parcel(event("2026-01-14 08:00", "DLVRD ACCPT ZU"))), UnreadableAnswer),
        (200, b"<html><body>maintenance</body></html>", UnreadableAnswer),
        (200, b"{}", UnreadableAnswer),
        (404, b"{}", UnreadableAnswer),
        (200, answer(parcel(DELIVERED, piece_code="00340000000000000020")), WrongNumber),
    ],
)
def test_what_is_no_answer(status: int, body: bytes, error: type[CourierError]) -> None:
    with pytest.raises(error) as failed:
        parse(body, status)

    assert type(failed.value) is error


def test_only_a_delivery_to_the_addressee_means_delivered() -> None:
    assert [code for code, told in EVENTS.items() if told.tag is Tag.DELIVERED] == ["DLVRD"]
    assert {code for code, _ in REASONS} <= EVENTS.keys()
    assert not SILENT & EVENTS.keys()
    assert not SILENT_STANDARD & STANDARD.keys()
    assert not SILENT_REASONS & REASONS.keys()


KEYS = {"api_key": "key", "api_secret": "secret", "username": "zt1", "password": 'p"<&'}


async def test_it_is_asked_with_both_logins(
    courier: Courier, fetch_for: FetchFor, permit: RecordingPermit
) -> None:
    asked: list[web.BaseRequest] = []

    async def site(request: web.BaseRequest) -> web.Response:
        asked.append(request)
        return web.Response(body=answer(parcel(DELIVERED)), content_type="application/xml")

    fetch = fetch_for(await courier(site), slug="dhl-germany", credentials=KEYS)
    fields = {"tracking_postal_code": "53113"}
    request = TrackingRequest(Slug("dhl-germany"), Number(NUMBER), NUMBER, fields=fields)
    told = await dhl_germany.track(fetch, request)

    assert told.delivered
    [one] = asked
    assert one.path == "/parcel/de/tracking/v0/shipments"
    assert one.headers["Authorization"] == encode_basic_auth("key", "secret")
    question = read_xml(one.query["xml"].encode())
    names = ("appname", "password", "request", "piece-code", "zip-code")
    told_by = ["zt1", 'p"<&', "d-get-piece-detail", NUMBER, "53113"]
    assert [question.attribute(name) for name in names] == told_by
    assert permit.steps == ["before_send", "after_send"]


async def test_without_credentials_nothing_is_asked(fetch_for: FetchFor) -> None:
    fetch = fetch_for("http://127.0.0.1:1", slug="dhl-germany", credentials={"api_key": "key"})
    request = TrackingRequest(Slug("dhl-germany"), Number(NUMBER), NUMBER)
    with pytest.raises(NoCredentials, match="TRACKER_COURIERS__DHL_GERMANY__API_SECRET"):
        await dhl_germany.track(fetch, request)
