"""The page of MQTT's statements is true: each is proved by a test that is there, or we say why not."""

from __future__ import annotations

from collections import Counter

from tests.mqtt.conformance.page import PAGE, brought_up_to_date, claims, rows

STATEMENTS = {"5.0": 251, "3.1.1": 141}
"""How many there are in the two standards."""


def test_every_statement_is_listed_once() -> None:
    listed = Counter((row.version, row.number) for row in rows(PAGE.read_text()))
    assert {version: sum(v == version for v, _ in listed) for version in STATEMENTS} == STATEMENTS
    assert set(listed.values()) == {1}


def test_every_statement_of_servers_is_proved_or_deviated_from_with_a_reason() -> None:
    unproved = [
        (row.version, row.number)
        for row in rows(PAGE.read_text())
        if row.of_servers and not row.tests and not row.deviates
    ]
    assert unproved == []


def test_every_statement_of_clients_is_checked_or_says_why_it_is_theirs_alone() -> None:
    silent = [(row.version, row.number) for row in rows(PAGE.read_text()) if not row.proof]
    assert silent == []


def test_no_test_proves_a_statement_that_there_is_not() -> None:
    listed = {(row.version, row.number) for row in rows(PAGE.read_text())}
    assert set(claims()) <= listed


def test_the_page_is_up_to_date() -> None:
    """Else run `python -m tests.mqtt.conformance.page`."""
    page = PAGE.read_text()
    assert brought_up_to_date(page, claims()) == page


def test_no_test_is_named_that_is_not_there() -> None:
    there = {test for tests in claims().values() for test in tests}
    named = {test for row in rows(PAGE.read_text()) for test in row.tests}
    assert named <= there
