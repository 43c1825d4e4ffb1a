"""Why a broker said no, as an error: the reason code says of what family, the reason string says why.

A filter that could not be understood comes with its place in the reason string, `… (at character 28): …`;
it is raised as the `FilterError` that parsing it here would have raised.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tidings.errors import AccessError, FilterError, InputError, NetworkError, SubscriptionError, TidingsError
from tidings.mqtt.reasons import Reason

PLACE = re.compile(r"(?P<reason>.*\(at character (?P<at>\d{1,9})\))(?:: (?P<excerpt>.*))?", re.DOTALL)

_WORD = re.compile(r"'[^']*'?|[\w.$]+|\S")

_ACCESS = {
    Reason.BAD_USER_NAME_OR_PASSWORD,
    Reason.NOT_AUTHORIZED,
    Reason.BANNED,
    Reason.BAD_AUTHENTICATION_METHOD,
}

FINAL = _ACCESS | {
    Reason.UNSUPPORTED_PROTOCOL_VERSION,
    Reason.CLIENT_IDENTIFIER_NOT_VALID,
    Reason.SESSION_TAKEN_OVER,
    Reason.ADMINISTRATIVE_ACTION,
}
"""After these it is of no use to connect again, or even harmful: two clients with one id would push each
other out for ever."""

_WAYS_OUT: dict[int, str] = {
    Reason.BAD_USER_NAME_OR_PASSWORD: "see that TIDINGS_USER and TIDINGS_PASSWORD are those of the network",
    Reason.NOT_AUTHORIZED: "it wants a user name and a password; set TIDINGS_USER and TIDINGS_PASSWORD",
    Reason.CLIENT_IDENTIFIER_NOT_VALID: "choose another client_id, or none",
    Reason.UNSUPPORTED_PROTOCOL_VERSION: "it must speak MQTT 5",
}


def reason_text(code: int) -> str:
    """The name of a reason code in words.

    >>> reason_text(0x87)
    'not authorized (0x87)'
    """
    try:
        name = Reason(code).name.lower().replace("_", " ")
    except ValueError:
        name = "an unknown reason"
    return f"{name} (0x{code:02x})"


def connection(where: str, code: int, said: str | None) -> TidingsError:
    """A CONNACK that says no."""
    way_out = _WAYS_OUT.get(code)
    text = f"{where} refuses the connection: {_why(code, said)}" + (f"; {way_out}" if way_out else "")
    return AccessError(text) if code in _ACCESS else NetworkError(text)


def publication(topic: str, code: int, said: str | None) -> TidingsError:
    """A PUBACK or PUBREC that says no."""
    text = f"the broker refuses what was published to {topic!r}: {_why(code, said)}"
    if code in _ACCESS:
        return AccessError(text)
    users = (Reason.TOPIC_NAME_INVALID, Reason.PAYLOAD_FORMAT_INVALID, Reason.PACKET_TOO_LARGE)
    return InputError(text) if code in users else NetworkError(text)


def subscription(topic_filter: str, wheres: Sequence[str], code: int, said: str | None) -> TidingsError:
    """A SUBACK that says no; a filter that could not be understood with the place in it."""
    if said is not None and wheres and (found := PLACE.fullmatch(said)) is not None:
        start = int(found["at"]) - 1
        text = _meant(wheres, start, found["excerpt"] or "")
        if text is not None:
            return _pointed_at(found["reason"], text, start)
    text = f"the broker refuses the subscription to {topic_filter!r}: {_why(code, said)}"
    return AccessError(text) if code in _ACCESS else SubscriptionError(text)


def _pointed_at(reason: str, text: str, start: int) -> FilterError:
    """The error with the whole of what is wrong: as it is found here, if it is, else a word."""
    from tidings.language.filters import parse

    try:
        parse(text)
    except FilterError as error:
        if (error.reason, error.start) == (reason, start):
            return error
    word = _WORD.match(text, start)
    return FilterError(reason, text, start, word.end() if word else None)


def _meant(wheres: Sequence[str], start: int, excerpt: str) -> str | None:
    """Which of several filters is wrong: one that has the place, and the excerpt if there is one."""
    able = [text for text in wheres if 0 <= start <= len(text)]
    words = excerpt.strip(" …").rstrip(".")
    return next((text for text in able if words and words in text), able[0] if able else None)


def _why(code: int, said: str | None) -> str:
    return f"{said} ({reason_text(code)})" if said else reason_text(code)
