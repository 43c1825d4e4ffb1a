"""User properties of SUBSCRIBE that are not ours: misspelt ones are refused, others as the setting says."""

from __future__ import annotations

import dataclasses
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.mqtt.talk import PLAIN, Talk
from tidings.mqtt.costs import PROPERTY_STEPS, TOPIC_FILTER_STEPS
from tidings.mqtt.settings import ACCEPT, REFUSE
from tidings.mqtt.subscribing import OURS

LETTERS = string.ascii_lowercase + "_-$0é"
ours = st.sampled_from(OURS)


def answer(*properties: tuple[str, str], setting: str = ACCEPT) -> tuple[int, str]:
    """The code of SUBACK, and its reason."""
    talk = Talk(settings=dataclasses.replace(PLAIN, unknown_properties=setting))
    suback = talk.connect("c").subscribe("t", user=properties)
    return suback.reasons[0], suback.properties.reason_string or ""


def distance(one: str, other: str) -> int:
    """Edits between two words, by the table: add, leave out, replace, swap neighbours."""
    rows = [list(range(len(other) + 1))]
    for i, left in enumerate(one, 1):
        row = [i]
        for j, right in enumerate(other, 1):
            best = min(rows[i - 1][j] + 1, row[j - 1] + 1, rows[i - 1][j - 1] + (left != right))
            if i > 1 and j > 1 and one[i - 2 : i] == other[j - 2 : j][::-1]:
                best = min(best, rows[i - 2][j - 2] + 1)
            row.append(best)
        rows.append(row)
    return rows[-1][-1]


@st.composite
def near_ours(draw: st.DrawFn) -> str:
    """One of ours with up to two edits."""
    word = draw(ours)
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(word)))
        letter = draw(st.sampled_from(LETTERS))
        after = draw(st.integers(0, 2))
        put = draw(st.sampled_from(["", letter, word[at : at + 2][::-1]]))
        word = word[:at] + put + word[at + after :]
    return word


@pytest.mark.parametrize(
    ("name", "meant"),
    [("wher", "where"), ("wehre", "where"), ("Where", "where"), ("unknow", "unknown"), ("evry", "every"),
     ("max-delay", "max_delay"), ("maxextra", "max_extra"), ("sinse", "since"), ("untill", "until")],
)  # fmt: skip
def test_a_misspelt_name_is_refused_with_the_one_that_is_meant(name: str, meant: str) -> None:
    code, reason = answer((name, "severity >= 3"))
    assert code == 0x8F
    assert reason == f"{name!r} is no user property of SUBSCRIBE; did you mean {meant!r}?"


def test_other_names_are_none_of_our_business() -> None:
    assert answer(("traceparent", "00-1"), ("never", "1"), ("k", "v"), ("", "")) == (0, "")


def test_they_are_refused_where_the_setting_says_so() -> None:
    code, reason = answer(("traceparent", "00-1"), setting=REFUSE)
    assert code == 0x8F
    assert reason.startswith(
        "'traceparent' is no user property of SUBSCRIBE, and this broker refuses unknown"
    )
    assert reason.endswith("there are where, unknown, every, max_delay, max_extra, since, until")
    assert answer(("where", "a = 1"), ("unknown", "wait"), setting=REFUSE)[0] == 0


def test_looking_at_them_is_counted_so_that_other_clients_have_their_turn() -> None:
    talk = Talk()
    client = talk.connect("c")
    many = tuple((f"name {n}", "") for n in range(3_000))
    assert client.subscribe("t", user=many).reasons == (0,)
    assert talk.front._core.steps == 3_000 * PROPERTY_STEPS + TOPIC_FILTER_STEPS


@given(near_ours().filter(lambda name: name.removeprefix("$") not in OURS))
def test_what_is_refused_is_what_one_edit_makes_of_ours(name: str) -> None:
    nearest = min(distance(name.removeprefix("$").lower(), it) for it in OURS)
    code, reason = answer((name, "x"))
    assert (code == 0x8F) == (nearest <= 1)
    assert bool(reason) == (nearest <= 1)


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Cn"]), max_size=300))
def test_no_name_is_too_odd_to_be_answered(name: str) -> None:
    code, reason = answer((name, "1"), setting=REFUSE)
    assert code == 0x8F or name.removeprefix("$") in OURS
    assert len(reason) < 300
