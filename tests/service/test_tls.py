"""Certificates name brokers; files that are not what they should be are named."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

from tests.live.local import make_authority
from tidings.errors import SetupError
from tidings.service import addresses, tls


def test_the_common_name_or_else_the_first_dns_name_is_the_broker() -> None:
    common = {"subject": ((("commonName", "b1"),),), "subjectAltName": (("DNS", "b2"),)}
    assert tls.certified(common) == "b1"
    other = {"subject": ((("countryName", "GR"),),), "subjectAltName": (("IP Address", "::1"), ("DNS", "b2"))}
    assert tls.certified(other) == "b2"
    assert tls.certified({"subject": ()}) is None
    assert tls.certified({}) is None
    assert tls.certified(None) is None


def test_files_that_are_wrong_are_named(tmp_path: Path) -> None:
    issue = make_authority(tmp_path)
    authority, certificate, key = issue("a")
    _, _, other_key = issue("b")
    text = tmp_path / "text.pem"
    text.write_text("not a certificate", encoding="utf-8")
    for files, reason in [
        ((tmp_path / "none.pem", certificate, key), "none.pem is not there; name PEM files for authority"),
        ((authority, tmp_path, key), f"{tmp_path} is not there"),
        ((text, certificate, key), "text.pem is not a certificate in PEM form"),
        ((authority, text, key), "text.pem and .* are not a certificate and its key in PEM form"),
        ((authority, certificate, other_key), "are not a certificate and its key in PEM form: .*mismatch"),
    ]:
        with pytest.raises(SetupError, match=f"(?i){reason}"):
            tls.contexts(tls.Tls(*files))


def test_a_key_with_a_password_is_refused_without_asking(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization

    authority, certificate, key = make_authority(tmp_path)("a")
    plain = serialization.load_pem_private_key(key.read_bytes(), None)
    key.write_bytes(
        plain.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    with pytest.raises(SetupError) as said:
        tls.contexts(tls.Tls(authority, certificate, key))
    assert str(said.value) == (
        f"the key {key} has a password; store it without one, readable only by the broker's user"
    )


@pytest.mark.parametrize("module", [tls, addresses])
def test_the_examples_in_the_docstrings_are_true(module: object) -> None:
    assert doctest.testmod(module).failed == 0  # type: ignore[arg-type]
