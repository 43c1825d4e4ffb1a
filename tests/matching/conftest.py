"""The kernels, compiled once for all tests; the first run on a machine takes some seconds."""

from __future__ import annotations

import pytest

from tidings.matching import compile_kernels


@pytest.fixture(scope="session", autouse=True)
def _compiled() -> None:
    compile_kernels()
