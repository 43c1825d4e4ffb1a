"""The examples in the docstrings of `tidings.space` are true."""

from __future__ import annotations

import doctest
import importlib

import pytest


@pytest.mark.parametrize("name", ["expressions", "wildcards", "attributes", "spaces"])
def test_examples_are_true(name: str) -> None:
    found = doctest.testmod(importlib.import_module(f"tidings.space.{name}"))
    assert found.attempted > 0
    assert found.failed == 0
