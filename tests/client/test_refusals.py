"""What a broker's no becomes."""

from __future__ import annotations

import pytest

from tidings.client import refusals
from tidings.errors import AccessError, FilterError, InputError, NetworkError, SubscriptionError, TidingsError
from tidings.language.filters import parse
from tidings.mqtt.reasons import Reason


@pytest.mark.parametrize(
    "where", ["severity >= 3 AND road LIK 'A%'", "severity >", "(a = 1", "a = 'x", "road IN 'A1'", "f(x) = 2"]
)
def test_a_refused_filter_is_shown_as_if_it_had_been_parsed_here(where: str) -> None:
    with pytest.raises(FilterError) as here:
        parse(where)
    excerpt = where[here.value.start : here.value.start + 30]
    there = refusals.subscription("t/#", [where], 0x8F, f"{here.value.reason}: {excerpt}")
    assert isinstance(there, FilterError)
    assert str(there) == str(here.value)
    assert there.reason == here.value.reason


def test_what_only_the_broker_finds_wrong_is_pointed_at_too() -> None:
    where = "severity >= 3 AND raod = 'A1'"
    error = refusals.subscription("t", [where], 0x8F, f"raod is not declared (at character 19): {where}")
    assert str(error).splitlines() == [
        "raod is not declared (at character 19)",
        f"  {where}",
        " " * 20 + "^" * 4,
    ]


def test_of_several_filters_the_one_that_is_wrong_is_shown() -> None:
    error = refusals.subscription(
        "t", ["severity >= 3", "road = = 2 AND x"], 0x8F, "no (at character 8): = 2 AND x"
    )
    assert isinstance(error, FilterError)
    assert error.text == "road = = 2 AND x"


def test_a_place_that_is_in_none_of_them_is_only_told() -> None:
    error = refusals.subscription("t", ["a"], 0x8F, "no (at character 99): b")
    assert isinstance(error, SubscriptionError)
    assert "no (at character 99): b (topic filter invalid (0x8f))" in str(error)


@pytest.mark.parametrize(
    ("code", "family"),
    [
        (Reason.NOT_AUTHORIZED, AccessError),
        (Reason.TOPIC_NAME_INVALID, InputError),
        (Reason.QUOTA_EXCEEDED, NetworkError),
        (0xFE, NetworkError),
    ],
)
def test_the_code_says_whose_fault_it_is(code: int, family: type[TidingsError]) -> None:
    error = refusals.publication("t", code, None)
    assert type(error) is family
    assert f"0x{code:02x}" in str(error)


def test_wrong_credentials_are_told_with_a_way_out() -> None:
    error = refusals.connection("mqtt://h:1", Reason.BAD_USER_NAME_OR_PASSWORD, None)
    assert isinstance(error, AccessError)
    assert "mqtt://h:1 refuses the connection" in str(error)
    assert "TIDINGS_PASSWORD" in str(error)
