from __future__ import annotations

import pytest

from tidings.language.fields import Conflict, Field, Path, Type, path_text


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (("place",), "place"),
        (("place", "city"), "place.city"),
        (("wind speed",), "`wind speed`"),
        (("a.b", "c`d"), "`a.b`.`c``d`"),
        (("1st",), "`1st`"),
        (("",), "``"),
        (("πόλη",), "`πόλη`"),
    ],
)
def test_the_text_of_a_path_quotes_what_is_not_an_identifier(path: Path, text: str) -> None:
    assert path_text(path) == text


def test_only_a_union_holds_many_values() -> None:
    fields = [Field(("x",), Type.INT, conflict=conflict) for conflict in Conflict]
    assert [field.conflict for field in fields if field.many] == [Conflict.UNION]
