"""What tests of the page share: a page that is written once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.console import days
from tidings.console import page


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of the sample day."""
    return page.write(days.sample(), tmp_path_factory.mktemp("page"))
