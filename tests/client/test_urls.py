"""Where brokers are, as it is written; and what is said about a slip."""

from __future__ import annotations

import pytest

from tidings.client.urls import Address, read_all
from tidings.errors import InputError


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("mqtt://localhost", Address("mqtt", "localhost", 1883)),
        ("mqtts://b.example", Address("mqtts", "b.example", 8883)),
        ("mqtt://[::1]:7000/", Address("mqtt", "::1", 7000)),
        ("ws://b.example", Address("ws", "b.example", 8083, "/mqtt")),
        ("wss://b.example:443/in", Address("wss", "b.example", 443, "/in")),
        ("mqtt://a%40b:p%2Fw@h:1", Address("mqtt", "h", 1, "", "a@b", "p/w")),
    ],
)
def test_a_url_says_how_and_where(text: str, address: Address) -> None:
    assert read_all(text) == (address,)


def test_several_urls_are_a_list_or_a_text_with_commas() -> None:
    listed = read_all(["mqtt://a", "mqtt://b:1884"])
    assert read_all("mqtt://a, mqtt://b:1884,") == listed
    assert [str(one) for one in listed] == ["mqtt://a:1883", "mqtt://b:1884"]


def test_arguments_win_over_the_url_and_the_url_over_variables() -> None:
    variables = {"TIDINGS_USER": "v", "TIDINGS_PASSWORD": "pv"}
    (by_variable,) = read_all("mqtt://h", environment=variables)
    (by_url,) = read_all("mqtt://u:pu@h", environment=variables)
    (by_argument,) = read_all("mqtt://u:pu@h", "a", "pa", variables)
    assert [(one.user, one.password) for one in (by_variable, by_url, by_argument)] == [
        ("v", "pv"),
        ("u", "pu"),
        ("a", "pa"),
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("localhost:1883", "write mqtt://localhost:1883"),
        ("http://h", "'http' is none of the schemes mqtt, mqtts, ws, wss"),
        ("mqtt://:1883", "names no host"),
        ("mqtt://h:99999", "ort out of range"),
        ("mqtt://h:0", "from 1 to 65535"),
        ("mqtt://h/path", "nothing is expected"),
        ("mqtt://h?x=1", "nothing is expected"),
        ("", "no URL is given"),
        ("mqtt://a,wss://b", "must have one scheme"),
    ],
)
def test_a_slip_is_refused_with_a_way_out(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        read_all(text)


def test_a_message_never_shows_the_password() -> None:
    for text in ("http://u:secret@h", "mqtt://u:secret@h/path"):
        with pytest.raises(InputError) as caught:
            read_all(text)
        assert "secret" not in str(caught.value)
    assert "secret" not in str(read_all("mqtt://u:secret@h")[0])
