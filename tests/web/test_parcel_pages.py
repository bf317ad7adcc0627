"""The pages of parcels, without a script: listed, added, imported, followed and forgotten."""

from __future__ import annotations

import csv
import datetime as dt
import http.client
import io
from typing import Any
from urllib.parse import urlsplit

import pytest
from pages_ground import ACME, Person, Service

from service.worker.results.database import indexes_for, make_indexes, names_of
from service.worker.results.document import begun, content_of, document_id
from service.worker.results.shipments import search_of
from tracking.checkpoint import Checkpoint, Tag, Tracking
from tracking.request import MAIN, Account, Number, Slug, TrackingRequest

AT = dt.datetime(2026, 5, 4, 8, 0, tzinfo=dt.UTC)
UPS = "1Z999AA10123456784"
HOSTILE = "<script>alert(1)</script>"
SCAN = Checkpoint(
    "2026-05-04T10:00:00",
    f"left {HOSTILE}",
    Tag.IN_TRANSIT,
    "InTransit_001",
    city="Zürich",
    checkpoint_offset="+02:00",
    checkpoint_utc=AT,
)
FORMULA = Checkpoint("2026-05-04T11:00:00", '=HYPERLINK("http://x")', Tag.IN_TRANSIT, "x")


def store(api: Service, number: str, account: Account = MAIN, /, **more: Any) -> None:
    request = TrackingRequest(Slug("ups"), Number(number), number)
    content = content_of(Tracking(Tag.IN_TRANSIT, "InTransit_001", (SCAN,)))
    checked = {"last_checked_at": AT, "next_check_at": AT + dt.timedelta(hours=4)}
    document = begun(request, AT, content, account) | checked | more
    document["_id"] = document_id(f"ups:{number}", account)
    api.stores.tracking.replace_one({"_id": document["_id"]}, document, upsert=True)


@pytest.fixture(scope="module", autouse=True)
def stored(service: Service) -> None:
    """Sixty parcels of `main` and one of `acme`; `main` says something of one."""
    make_indexes(service.stores.tracking, indexes_for(names_of(service.config))["tracking"])
    for n in range(60):
        changed = {"updated_at": AT + dt.timedelta(minutes=n), "created_at": AT}
        store(service, f"1Z{n:04}", **changed)
    last = content_of(Tracking(Tag.DELIVERED, "Delivered_001", (SCAN, FORMULA)))
    store(service, "1ZLAST", **last, active=False, next_check_at=None, delivered=True)
    store(service, "1ZACME", ACME)
    words = {"title": HOSTILE, "order_id": "A-7", "shipment_tags": ["vip"]}
    shipment = {"_id": "s1", "account": "main", "parcel": "ups:1ZLAST", "number": "1ZLAST"}
    said = {"words": words, "search": search_of("1ZLAST", words), "deleted": False}
    service.stores.shipments.insert_one(shipment | said)


def numbers(person: Person, query: str = "") -> list[str]:
    tree = person.get(f"/parcels?{query}").tree
    return [each.text_content() for each in tree.xpath("//tbody//th/a")]


def test_all_are_paged_and_each_page_leads_to_the_next(member: Person) -> None:
    first = member.get("/parcels")
    [further] = first.tree.xpath("//a[@rel='next']/@href")

    both = numbers(member) + numbers(member, urlsplit(further).query)

    assert sorted(both) == sorted(["1ZLAST", *(f"1Z{n:04}" for n in range(60))])
    assert both[0] == "1Z0059"
    assert "InTransit 60" in first.words
    assert "Delivered 1" in first.words
    assert len(first.body) < 150_000


def test_filters_and_searches_narrow_the_list_and_hostile_words_stay_words(member: Person) -> None:
    assert numbers(member, "tag=Delivered&slug=&active=&age=&search=") == ["1ZLAST"]
    assert numbers(member, "label=VIP") == numbers(member, "search=a-7") == ["1ZLAST"]
    assert numbers(member, "search=1z001") == [f"1Z{n:04}" for n in range(19, 9, -1)]
    assert numbers(member, "sort=next_check&search=1zlast") == []
    assert numbers(member, "age=24") == []
    assert member.get("/parcels?tag=Lost").status == 400
    shown = member.get("/parcels?search=1ZLAST")
    assert HOSTILE not in shown.text
    assert HOSTILE in shown.words


def test_all_that_fit_are_exported_and_no_spreadsheet_takes_a_text_for_a_formula(
    viewer: Person,
) -> None:
    exported = viewer.get("/parcels/export?tag=Delivered")
    rows = list(csv.DictReader(io.StringIO(exported.text)))

    assert "attachment" in exported.headers["Content-Disposition"]
    assert [each["number"] for each in rows] == ["1ZLAST"]
    assert rows[0]["last_event"] == "'" + FORMULA.message
    assert len(viewer.get("/parcels/export").text.splitlines()) == 62


def test_a_number_of_one_courier_is_added_and_its_page_says_where_it_waits(member: Person) -> None:
    form = member.get("/parcels/add")

    added = member.submit(form, "/parcels/add", number="1Z 999 AA1 01 2345 6784")

    assert added.heading.startswith(UPS)
    assert "no worker has taken it yet" in added.words
    [events] = added.tree.xpath("//@sse-connect")
    assert _begins(member, events).startswith("retry:")
    assert member.ask("HEAD", events, None, {}).headers["Content-Type"] == "text/event-stream"
    fragment = member.get(f"/parcels/ups/{UPS}/now?{urlsplit(added.path).query}")
    assert "no worker has taken it yet" in fragment.words


def _begins(person: Person, path: str) -> str:
    """The first bytes of a stream that does not end."""
    connection = http.client.HTTPConnection(urlsplit(person.url).netloc, timeout=10)
    connection.request("GET", path, headers={"Cookie": f"session={person.cookies['session']}"})
    answer = connection.getresponse()
    assert answer.headers["Content-Type"] == "text/event-stream"
    begun = answer.fp.read(1) if answer.chunked else b""
    text = answer.fp.readline() + answer.fp.readline()
    connection.close()
    assert begun
    return text.decode().partition("\r\n")[2]


def test_where_several_couriers_may_have_a_number_one_is_chosen(member: Person) -> None:
    form = member.get("/parcels/add")

    offered = member.submit(form, "/parcels/add", number="12345678901234")

    assert offered.status == 422
    assert "name the courier" in offered.words
    likely = offered.tree.xpath("//optgroup[@label='Likely']/option/@value")
    assert len(likely) > 1
    fragment = member.get("/parcels/detect?number=12345678901234")
    assert fragment.tree.xpath("//optgroup[@label='Likely']/option/@value") == likely
    assert member.submit(offered, "/parcels/add", slug="ups", number="!").status == 422


def test_a_file_is_put_row_by_row_and_reported(member: Person, service: Service) -> None:
    lines = ["number,slug", *(f"1ZROW{n:05},ups" for n in range(398)), "=1+1,ups", "12,"]
    form = member.get("/parcels/import")

    shown = member.submit(form, "/parcels/import", file="\n".join(lines).encode())

    assert shown.status == 200
    assert "2 of 400 rows are answered or over" in shown.words
    for n in (0, 1):
        fresh = {"last_checked_at": dt.datetime.now(dt.UTC), "tag": "Delivered"}
        store(service, f"1ZROW{n:05}", **fresh)
    report = member.get(f"{shown.path}/report").text
    rows = {each["given"]: each for each in csv.DictReader(io.StringIO(report))}
    assert [rows[f"1ZROW0000{n}"]["outcome"] for n in range(3)] == ["Delivered"] * 2 + ["waits"]
    assert rows["'=1+1"]["outcome"] == rows["12"]["outcome"] == "refused"
    assert len(rows) == 400
    now = member.get(f"{shown.path}/now")
    assert "4 of 400" in now.words
    assert member.get(f"{shown.path}/now", If_None_Match=now.headers["ETag"]).status == 304
    assert len(shown.body) < 150_000


@pytest.mark.parametrize(
    ("file", "why"),
    [
        (b"\xff\xfe", "not UTF-8"),
        (b"number,slug\n", "holds no request"),
        (b"number\n" + b"1Z999\n" * 5_001, "more than 5,000 rows"),
        (b'number\n"1Z', "not closed"),
        (b"number,surname\n1,2", "surname"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_whole(
    member: Person, service: Service, file: bytes, why: str
) -> None:
    before = service.stores.imports.count_documents({})

    shown = member.submit(member.get("/parcels/import"), "/parcels/import", file=file)

    assert shown.status == 422
    assert why in shown.words
    assert service.stores.imports.count_documents({}) == before


def test_a_parcels_page_tells_its_journey_as_the_courier_tells_it(viewer: Person) -> None:
    shown = viewer.get("/parcels/ups/1ZLAST")

    assert "2026-05-04 10:00:00 (+02:00) Zürich" in shown.words
    assert "2026-05-04 11:00:00 (local time)" in shown.words
    assert "OrderA-7" in shown.words
    assert HOSTILE not in shown.text
    assert shown.tree.xpath("//form[contains(@action, '/ask')]") == []


def test_what_is_another_accounts_is_not_there(member: Person, acme: Person) -> None:
    own = member.submit(member.get("/parcels/import"), "/parcels/import", file=b"number\n1ZMINE77")
    for path in ("/parcels/ups/1ZLAST", "/parcels/ups/1ZLAST/now", own.path, f"{own.path}/now"):
        assert member.get(path).status == 200
        assert acme.get(path).status == 404
    assert acme.get(f"{own.path}/report").status == 404
    assert numbers(acme) == ["1ZACME"]
    assert numbers(acme, "search=1ZLAST") == numbers(acme, "search=A-7") == []
    assert "1ZLAST" not in acme.get("/parcels/export").text
    token = acme.get("/parcels/add").form("/parcels/add").fields["csrf"]
    assert acme.post("/parcels/ups/1ZLAST/ask", {"csrf": token}).status == 404
    assert acme.post("/parcels/ups/1ZACME/forget", {"csrf": token}).status == 404
    assert member.get("/parcels/ups/1ZACME").status == 404


def test_viewers_look_members_ask_and_owners_of_main_forget(
    viewer: Person, member: Person, owner: Person, service: Service
) -> None:
    store(service, "1ZGONE")
    page = "/parcels/ups/1ZGONE"
    file = b"number,slug\n1ZGONE,ups\n1ZSTAYS,ups"
    imported = member.submit(member.get("/parcels/import"), "/parcels/import", file=file)
    for path in ("/parcels/add", "/parcels/import", "/parcels/detect?number=1Z"):
        assert viewer.get(path).status == 403
    assert "no worker has taken it yet" in member.submit(member.get(page), f"{page}/ask").words
    assert member.get(f"{page}/forget").status == 404
    form = owner.get(f"{page}/forget")
    assert owner.submit(form, f"{page}/forget", typed="1ZGON").status == 422

    done = owner.submit(form, f"{page}/forget", typed="1zgone")

    assert "is forgotten" in done.words
    assert owner.get(page).status == 404
    report = member.get(f"{imported.path}/report").text
    assert ("1ZGONE" in report, "1ZSTAYS" in report) == (False, True)
    act = service.stores.audit.find_one({"act": "forget"})
    assert act
    assert (act["user"], act["target"]) == ("owner@main.example", {"slug": "ups"})
