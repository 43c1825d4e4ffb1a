"""Sets that come from outside are canonical or refused."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidings.peers.cells import is_set
from tidings.space.expressions import canonical

EXPRESSIONS = st.text("01", max_size=4)


@given(st.lists(EXPRESSIONS, max_size=6).map(tuple))
def test_a_set_is_taken_iff_it_is_its_own_canonical_form(some: tuple[str, ...]) -> None:
    assert is_set(some, 8, 8) is (canonical(some) == some)
    assert is_set(canonical(some), 8, 8)
