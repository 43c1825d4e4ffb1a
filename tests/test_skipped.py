"""Whoever reads the end of a run knows what to install for the tests that were skipped."""

from __future__ import annotations

import re
from pathlib import Path

from tests.skipped import INSTALL, needed, to_install


def test_each_program_has_a_line_with_the_number_of_tests_that_need_it() -> None:
    reasons = ["needs mosquitto", "needs a Chromium, on the PATH or elsewhere", "root may write anywhere"]
    assert to_install([*reasons, "needs mosquitto"]) == [
        "apt install chromium, or name one in TIDINGS_TEST_CHROMIUM  (1 skipped without a Chromium)",
        "apt install mosquitto  (2 skipped without mosquitto)",
    ]
    assert to_install(["root may write anywhere"]) == []


def test_every_reason_that_names_a_program_has_a_line(root: Path) -> None:
    sources = [
        file.read_text(encoding="utf-8")
        for file in sorted((root / "tests").rglob("test_*.py"))
        if file.name != Path(__file__).name
    ]
    named = {
        needed(reason) for text in sources for reason in re.findall(r'(?:skip\(|reason=)"(needs [^"]+)', text)
    }
    assert named == set(INSTALL)
