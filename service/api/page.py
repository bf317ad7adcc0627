"""`/docs`: the document of `openapi` as one page of HTML, which asks nobody for anything else."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from typing import Any
from urllib.parse import urlencode

Document = Mapping[str, Any]

STYLE = """\
:root { color-scheme: light dark;
  --line: #d5d9df; --soft: #f4f6f8; --faint: #59626e; --link: #0b57a4 }
@media (prefers-color-scheme: dark) {
  :root { --line: #3a4049; --soft: #1f242b; --faint: #a0a9b5; --link: #84b9f2 }
  body { background: #14181d; color: #e4e8ed }
}
body { font: 1rem/1.55 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
a { color: var(--link) }
section { border-top: 1px solid var(--line); margin-top: 2.5rem }
h2 { font-size: 1.15rem; overflow-wrap: anywhere }
h3 { font-size: 1rem; margin-bottom: .3rem }
code, pre { font-family: ui-monospace, monospace; font-size: .9em }
pre { background: var(--soft); padding: .7rem 1rem; overflow-x: auto }
table { border-collapse: collapse; width: 100% }
th, td { border-bottom: 1px solid var(--line); padding: .3rem .8rem .3rem 0; text-align: left;
  vertical-align: top; overflow-wrap: anywhere }
th { color: var(--faint); font-weight: normal }
"""

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "style-src 'sha256-"
        + base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
        + "'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}

_BOUNDS = {
    "minimum": "≥ {:.15g}",
    "maximum": "≤ {:.15g}",
    "minLength": "length ≥ {}",
    "maxLength": "length ≤ {}",
    "pattern": "matches {}",
}


def page(document: Document) -> str:
    """Write the page of a document in OpenAPI."""
    title = escape(f"{document['info']['title']} {document['info']['version']}")
    paragraphs = document["info"]["description"].split("\n\n")
    routes = [
        (method.upper(), path, operation)
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    ]
    schemas = document["components"]["schemas"]
    return "\n".join(
        [
            "<!doctype html>",
            f'<html lang="en"><head><meta charset="utf-8"><title>{title}</title>',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<style>{STYLE}</style></head><body>",
            f"<header><h1>{title}</h1>",
            *(f"<p>{_prose(each)}</p>" for each in paragraphs),
            '<p>The same for programs: <a href="/openapi.json">/openapi.json</a>.</p>',
            "<p>In the examples <code>$SERVER</code> is the address of this page without its path",
            "and <code>$KEY</code> is a key.</p></header>",
            *_contents(routes),
            "<main>",
            *(line for route in routes for line in _route(*route, document)),
            *(line for name, schema in schemas.items() for line in _type(name, schema)),
            "</main></body></html>\n",
        ]
    )


def _contents(routes: Iterable[tuple[str, str, Document]]) -> Iterator[str]:
    yield '<nav aria-label="Routes"><ul>'
    for method, path, operation in routes:
        link = f'<a href="#{operation["operationId"]}"><code>{method} {escape(path)}</code></a>'
        yield f"<li>{link} {_prose(operation['summary'])}</li>"
    yield "</ul></nav>"


def _route(method: str, path: str, operation: Document, document: Document) -> Iterator[str]:
    yield f'<section id="{operation["operationId"]}"><h2><code>{method} {escape(path)}</code></h2>'
    yield f"<p>{_prose(operation['summary'])} {_key(operation)}</p>"
    if operation["parameters"]:
        yield "<h3>Parameters</h3>"
        yield from _table(
            ("name", "in", "type", "means"),
            (
                (_code(each["name"]), each["in"], _kind(each["schema"]), _means(each))
                for each in operation["parameters"]
            ),
        )
    if "requestBody" in operation:
        yield "<h3>Body</h3>"
        yield from _table(("as", "type"), _media(operation["requestBody"]))
    yield "<h3>Answers</h3>"
    good = {status: each for status, each in operation["responses"].items() if "$ref" not in each}
    yield from _table(
        ("status", "as", "type"),
        (
            (f"{status} {each['description']}", *media)
            for status, each in good.items()
            for media in _media(each) or [("", "no body")]
        ),
    )
    refused = ", ".join(
        f"{status} {_referred(each, document)['description']}"
        for status, each in operation["responses"].items()
        if status not in good
    )
    yield f'<p>Refusals, with <a href="#ProblemDetails">ProblemDetails</a>: {escape(refused)}.</p>'
    yield f"<h3>Example</h3><pre>{escape(example(method, path, operation, document))}</pre>"
    yield "</section>"


def example(method: str, path: str, operation: Document, document: Document) -> str:
    """Write a command that asks a route, as one pastes it into a shell."""
    parts, query = {}, {}
    for each in operation["parameters"]:
        value = next(iter(each["schema"].get("examples", ())), None)
        if each["in"] == "path":
            parts[each["name"]] = str(value or each["name"])
        elif each["in"] == "query" and value:
            query[each["name"]] = value
    asked = path.format(**parts) + (f"?{urlencode(query)}" if query else "")
    words = ["curl -s", *([f"-X {method}"] if method != "GET" else []), f'"$SERVER{asked}"']
    if "security" in operation:
        words.append('-H "as-api-key: $KEY"')
    if body := operation.get("requestBody"):
        media, content = next(iter(body["content"].items()))
        words.append(
            f"-H 'Content-Type: {media}' \\\n  -d '{_sample(content['schema'], document)}'"
        )
    return " ".join(words)


def _sample(schema: Document, document: Document) -> str:
    """Make the smallest object that a schema takes, of the examples that stand in it."""
    for one in schema.get("anyOf", [schema]):
        told = _referred(one, document)
        if "properties" in told:
            members = {
                name: next(iter(each.get("examples", ["…"])))
                for name, each in told["properties"].items()
                if name in told["required"] or "examples" in each
            }
            return json.dumps(members, ensure_ascii=False)
    return "…"


def _type(name: str, schema: Document) -> Iterator[str]:
    yield f'<section id="{name}"><h2><code>{name}</code></h2><p>{_means(schema)}</p>'
    if members := schema.get("properties"):
        required = schema.get("required", ())
        yield from _table(
            ("member", "type", "means"),
            (
                (
                    _code(member) + ("" if member in required else " (may be left out)"),
                    _kind(each),
                    _means(each),
                )
                for member, each in members.items()
            ),
        )
    else:
        yield f"<p>{_kind(schema)}</p>"
    yield "</section>"


def _kind(schema: Document) -> str:
    """Say in words which values a schema takes."""
    if ref := schema.get("$ref"):
        name = ref.rpartition("/")[2]
        return f'<a href="#{name}">{name}</a>'
    if several := schema.get("anyOf"):
        return " or ".join(_kind(each) for each in several)
    if values := schema.get("enum"):
        return ", ".join(_code(json.dumps(each)) for each in values)
    if items := schema.get("items"):
        return f"array of {_kind(items)}"
    bounds = [
        escape(words.format(schema[name])) for name, words in _BOUNDS.items() if name in schema
    ]
    return ", ".join([escape(schema.get("type", "any value")), *bounds])


def _media(described: Document) -> list[tuple[str, str]]:
    found = described.get("content", {})
    return [(escape(media), _kind(each["schema"])) for media, each in found.items()]


def _referred(each: Document, document: Document) -> Document:
    """Find what a reference means; all else is itself."""
    found: Document = each
    if ref := each.get("$ref"):
        found = document
        for part in ref.removeprefix("#/").split("/"):
            found = found[part]
    return found


def _key(operation: Document) -> str:
    if not operation.get("security"):
        return "No key is needed."
    [scope] = next(iter(operation["security"][0].values()))
    return f"The key needs the scope <code>{escape(scope)}</code>."


def _means(each: Document) -> str:
    return _prose(each.get("description", ""))


def _prose(text: str) -> str:
    return re.sub("`([^`]+)`", r"<code>\1</code>", escape(text))


def _code(text: str) -> str:
    return f"<code>{escape(text)}</code>"


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    yield f"<table><thead><tr>{''.join(f'<th>{each}</th>' for each in head)}</tr></thead><tbody>"
    for row in rows:
        yield f"<tr>{''.join(f'<td>{each}</td>' for each in row)}</tr>"
    yield "</tbody></table>"
