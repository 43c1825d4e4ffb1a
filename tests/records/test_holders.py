"""The names of holders: one text for each, and nothing else is one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.errors import InputError
from tidings.records.holders import INCARNATION_MAX, Held, Holder, parse_holder


@pytest.mark.parametrize(
    ("broker", "incarnation", "text"),
    [
        ("b3", 1763445274123, "b3.1763445274123"),
        ("Athens-1_x", 0, "Athens-1_x.0"),
        ("a.b", 7, "a%2Eb.7"),
        ("a/b,c:d e~f%g+h", 7, "a%2Fb%2Cc%3Ad%20e%7Ef%25g%2Bh.7"),
        ("Αθήνα", INCARNATION_MAX, f"%CE%91%CE%B8%CE%AE%CE%BD%CE%B1.{INCARNATION_MAX}"),
    ],
)
def test_a_holder_as_text(broker: str, incarnation: int, text: str) -> None:
    assert str(Holder(broker, incarnation)) == text
    assert parse_holder(text) == Holder(broker, incarnation)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "b3",
        "b3.",
        ".5",
        "b3.05",
        "b3.-5",
        "b3.5x",
        "b3.5.6",
        "a.b.5",
        "b3.٥",
        f"b3.{INCARNATION_MAX + 1}",
        "b3.1" + "0" * 5000,
        "b%33.5",
        "a%2fb.5",
        "a%2.5",
        "%FF.5",
        "a b.5",
        "b3.5\n",
    ],
)
def test_what_names_no_holder(text: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_holder(text)
    assert str(refused.value) == (
        f"{text[:200]!r} names no holder: that is a broker's id and its incarnation, such as "
        "b3.1763445274123; GET /log lists those of a topic"
    )


@given(
    st.text(st.characters(codec="utf-8"), min_size=1),
    st.integers(min_value=0, max_value=INCARNATION_MAX),
)
def test_each_holder_comes_back_from_its_text(broker: str, incarnation: int) -> None:
    holder = Holder(broker, incarnation)
    assert parse_holder(str(holder)) == holder
    assert not set(str(holder)) & set(":,/+ ~")


def test_what_is_held_knows_its_broker() -> None:
    assert Held("a%2Fb.5", 0, 3).broker == "a/b"
