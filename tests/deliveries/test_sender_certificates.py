"""https: a certificate that is not good gets nothing."""

from __future__ import annotations

import datetime as dt
import ssl
from asyncio import StreamReader, StreamWriter
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from receiving import BODY, OK, Permit, Send, Wire, answering

from service.worker.deliveries.attempt import Failure


class Issuer:
    """Issues certificates that a test trusts."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "issuer")])
        authority = self._certificate(self._name, self._key.public_key(), "issuer", 1)
        self._pem = authority.public_bytes(serialization.Encoding.PEM).decode()

    @property
    def trusted(self) -> ssl.SSLContext:
        """What verifies as a worker does, but trusts this issuer."""
        return ssl.create_default_context(cadata=self._pem)

    def serving(self, host: str, days: int = 1) -> ssl.SSLContext:
        """A server's side for a host; `days` until it ends."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
        made = self._certificate(name, key.public_key(), host, days)
        file = self._folder / f"{host}{days}.pem"
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        file.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        return context

    def _certificate(self, name: x509.Name, key: Any, host: str, days: int) -> x509.Certificate:
        now = dt.datetime.now(dt.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(days=30))
            .not_valid_after(now + dt.timedelta(days=days))
            .add_extension(x509.BasicConstraints(name == self._name, None), critical=True)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
            .sign(self._key, hashes.SHA256())
        )


@pytest.fixture
def issuer(tmp_path: Path) -> Issuer:
    return Issuer(tmp_path)


async def test_https_is_spoken_where_the_certificate_is_good(
    wire: Wire, send: Send, issuer: Issuer
) -> None:
    requests: list[bytes] = []
    port = await wire(answering(OK, requests), issuer.serving("shop.example"))
    sent = await send(port, tls=issuer.trusted)

    assert sent.ending.failure is None
    assert requests[0].endswith(BODY)


@pytest.mark.parametrize("flaw", ["another host", "ended", "not trusted"])
async def test_a_bad_certificate_gets_nothing(
    flaw: str, wire: Wire, send: Send, issuer: Issuer, permit: Permit
) -> None:
    requests: list[bytes] = []
    host = "other.example" if flaw == "another host" else "shop.example"
    serving = issuer.serving(host, -1 if flaw == "ended" else 1)
    port = await wire(answering(OK, requests), serving)
    trusted = True if flaw == "not trusted" else issuer.trusted
    sent = await send(port, tls=trusted)

    assert sent.ending.failure is Failure.TLS
    assert requests == []
    assert not permit.started


async def test_a_receiver_without_tls_behind_https_is_a_failure_of_tls(
    wire: Wire, send: Send
) -> None:
    async def serve(_: StreamReader, writer: StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad\r\n\r\n")

    sent = await send(await wire(serve), tls=True)

    assert sent.ending.failure is Failure.TLS
