"""TLS between brokers, and for MQTT clients.

Both sides of a link show a certificate of one authority, and the certificate names the broker. Whether the
name is the right one is for the broker to say, when it is greeted; so host names are not compared. To clients
the broker shows another certificate, by which they know the host; a client may show one, which names a user.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tidings.errors import SetupError


@dataclass(frozen=True, slots=True)
class Tls:
    """Three PEM files."""

    authority: Path
    """Certificates of the authorities that are believed."""

    certificate: Path
    """This broker's certificate, with those between it and the authority. Its common name is the broker's id;
    where it has none, its first DNS name is."""

    key: Path
    """The private key of that certificate."""


@dataclass(frozen=True, slots=True)
class ClientTls:
    """PEM files, for MQTT clients."""

    certificate: Path
    """The broker's certificate, with those between it and an authority that clients know."""

    key: Path
    """The private key of that certificate."""

    authority: Path | None = None
    """Certificates of the authorities that are believed about clients."""

    required: bool = False
    """Whether a client must show a certificate."""


class Renewable(ssl.SSLContext):
    """For a server that runs on: each new connection has the context that is `current` then.

    Another context takes the place of the one before, because an authority cannot be taken out of one.
    """

    current: ssl.SSLContext

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        return self.current.wrap_bio(incoming, outgoing, server_side, server_hostname, session)


def client_context(tls: ClientTls) -> ssl.SSLContext:
    """For accepting MQTT clients. SetupError says which file is wrong, and how."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # Tickets are for those who come back often; a client stays. They cost each handshake a tenth.
    context.num_tickets = 0
    context.options |= ssl.OP_NO_RENEGOTIATION
    _check_files(tls.certificate, tls.key, *([tls.authority] if tls.authority else []))
    if tls.authority is not None:
        context.verify_mode = ssl.CERT_REQUIRED if tls.required else ssl.CERT_OPTIONAL
        _load_authority(context, tls.authority)
    _load_certificate(context, tls.certificate, tls.key)
    return context


def contexts(tls: Tls) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """For accepting and for dialling. SetupError says which file is wrong, and how."""
    return _context(tls, ssl.PROTOCOL_TLS_SERVER), _context(tls, ssl.PROTOCOL_TLS_CLIENT)


def _context(tls: Tls, side: int) -> ssl.SSLContext:
    context = ssl.SSLContext(side)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    _check_files(tls.authority, tls.certificate, tls.key)
    _load_authority(context, tls.authority)
    _load_certificate(context, tls.certificate, tls.key)
    return context


def _check_files(*files: Path) -> None:
    for file in files:
        try:
            there = file.is_file()
        except OSError as error:
            raise SetupError(f"the TLS file {file} cannot be read: {error.strerror}") from error
        if not there:
            raise SetupError(
                f"the TLS file {file} is not there; name PEM files for authority, certificate and key"
            )


def _load_authority(context: ssl.SSLContext, authority: Path) -> None:
    try:
        context.load_verify_locations(cafile=authority)
    except (OSError, ssl.SSLError) as error:
        raise SetupError(f"{authority} is not a certificate in PEM form: {error}") from error


def _load_certificate(context: ssl.SSLContext, certificate: Path, key: Path) -> None:
    try:
        # A key with a password would ask on the terminal; a broker has none.
        context.load_cert_chain(certificate, key, password=partial(_refuse_password, key))
    except (OSError, ssl.SSLError) as error:
        raise SetupError(
            f"{certificate} and {key} are not a certificate and its key in PEM form: {error}"
        ) from error


def _refuse_password(key: Path) -> str:
    raise SetupError(
        f"the key {key} has a password; store it without one, readable only by the broker's user"
    )


def certified(certificate: Mapping[str, object] | None) -> str | None:
    """The name in a peer's certificate, as `ssl` gives it: its common name, else its first DNS name.

    >>> certified({"subject": ((("organizationName", "x"),), (("commonName", "athens-1"),))})
    'athens-1'
    >>> certified({"subjectAltName": (("DNS", "athens-1"), ("DNS", "other"))})
    'athens-1'
    """
    if not certificate:
        return None
    subject = certificate.get("subject", ())
    assert isinstance(subject, tuple)
    for part in subject:
        for name, value in part:
            if name == "commonName":
                return str(value)
    others = certificate.get("subjectAltName", ())
    assert isinstance(others, tuple)
    return next((str(value) for name, value in others if name == "DNS"), None)
