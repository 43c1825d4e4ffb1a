"""The examples in the docstrings of `tidings.language` are true."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import tidings.language

MODULES = [module.name for module in pkgutil.iter_modules(tidings.language.__path__, "tidings.language.")]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_are_true(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0
