"""Networks of this machine as a file says them, and what is wrong with files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidings.cli.network.leave import redundancy_lost
from tidings.cli.network.topologies import BROKERS_MAX, both_ways, name_fault, read_links
from tidings.cli.plan.network import of_edges
from tidings.errors import InputError

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "links.csv"


@pytest.mark.parametrize("header", ["", "a,b\n", "a,b,length\n", "\ufeffa , b\n", "# roads\n\na,b\n"])
def test_links_are_lines_of_two_brokers_with_a_header_or_none(file: Path, header: str) -> None:
    file.write_text(f"{header}athens,patras\n\n  larissa , athens\n", encoding="utf-8")
    assert read_links(file) == (["athens", "patras", "larissa"], [(1, 0), (2, 0)])


def test_the_same_file_is_one_of_plans_with_its_lengths(file: Path) -> None:
    names, found = read_links(EXAMPLES / "plans" / "links.csv")
    assert (names, found) == (["1", "2", "4", "3", "5", "6"], [(1, 0), (2, 1), (3, 1), (4, 3), (5, 4)])
    file.write_text("x,y,2.5\ny,z,0\n", encoding="utf-8")
    assert read_links(file) == (["x", "y", "z"], [(1, 0), (2, 1)])


def test_of_each_link_the_broker_that_is_named_later_dials(file: Path) -> None:
    file.write_text("x,y\nz,y\nz,x\n", encoding="utf-8")
    assert read_links(file) == (["x", "y", "z"], [(1, 0), (2, 0), (2, 1)])


@pytest.mark.parametrize(
    ("text", "names", "links"),
    [
        ("a,b\nb,c\nc,a\n", ["a", "b", "c"], [(1, 0), (2, 0), (2, 1)]),
        ("# two\n\n a , b \n", ["a", "b"], [(1, 0)]),
        ("a,b,2\nb,c\n", ["a", "b", "c"], [(1, 0), (2, 1)]),
        ("a,b\nlength,c\n", ["length", "c"], [(1, 0)]),
    ],
)
def test_brokers_may_be_called_as_the_columns(
    file: Path, text: str, names: list[str], links: list[tuple[int, int]]
) -> None:
    file.write_text(text, encoding="utf-8")
    assert read_links(file) == (names, links)
    # Plans see the same ones.
    assert {frozenset(link) for link in of_edges(file).links} == {
        frozenset(names[at] for at in pair) for pair in links
    }


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "{file} names no broker; write a link in each line, as athens,patras"),
        ("a,b,length\n", "{file} names no broker"),
        ("a,b\nb,a\n", "{file}, line 2: the link b,a is there already, in line 1; write it once"),
        ("a,b\nc,d\nd,b\nx,y\n", "{file}, line 4: no way leads from 'x' to 'a' of line 1; add a link"),
        (
            "a,b,length\nc,a,1\n",
            "{file}, line 1: line 2 names a or b again, so that this is a link of theirs",
        ),
        ("x,y\nz\n", "{file}, line 2: 'z' has 1 fields; it is a,b,length"),
        (
            "a,b,length,colour\nx,y,1,red\n",
            "{file}, line 1: 'a,b,length,colour' has 4 fields; it is a,b,length",
        ),
        ("a,b,colour\nx,y,red\n", "{file}, line 1: length is 'colour'; give a number"),
        ("x,y\ny,z,nan\n", "{file}, line 2: length is 'nan'; give a finite number, 0 or more"),
        ("x,y,inf\n", "{file}, line 1: length is 'inf'"),
        ("x,y,-3\n", "{file}, line 1: length is '-3'"),
        ("x,y\n\n# z\nx,x\n", "{file}, line 4: 'x' is linked to itself; a link joins two brokers"),
        ("x,y\ny,z\ny,x\n", "{file}, line 3: the link y,x is there already, in line 1; write it once"),
        ("x,y\nu,v\nv,w\n", "{file}, line 2: no way leads from 'u' to 'x' of line 1; add a link"),
        ("from,to\nx,y\n", "{file}, line 2: no way leads from 'x' to 'from' of line 1; add a link"),
        ("x,\n", "{file}, line 1: '' cannot be the name of a broker and of its folder; take letters"),
        ("x,../y\n", "{file}, line 1: '../y' cannot be the name of a broker"),
        ("x,records\n", "{file}, line 1: 'records' cannot be the name of a broker"),
        ("x,--json\n", "{file}, line 1: '--json' cannot be the name of a broker"),
        ("x,y\x1b[2J\n", "{file}, line 1: 'y\\x1b[2J' cannot be the name of a broker"),
        ("x," + "é" * 128 + "\n", "has 256 bytes; the name of a broker has 255 at most"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_line_and_the_way_out(
    file: Path, text: str, reason: str
) -> None:
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as raised:
        read_links(file)
    assert reason.format(file=file) in str(raised.value)


def test_a_file_may_name_as_many_brokers_as_there_may_be_and_no_more(file: Path) -> None:
    lines = [f"hub,{number}\n" for number in range(1, BROKERS_MAX)]
    file.write_text("".join(lines), encoding="utf-8")
    assert len(read_links(file)[0]) == BROKERS_MAX
    file.write_text("".join([*lines, "hub,more\n"]), encoding="utf-8")
    with pytest.raises(InputError, match=r"line 200: 'more' is broker number 201; there are 200 at most"):
        read_links(file)


@pytest.mark.parametrize("content", [None, b"\xff\xfe"])
def test_a_file_that_cannot_be_read_is_named(file: Path, content: bytes | None) -> None:
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(InputError, match=r"links\.csv (cannot be read|is not text in UTF-8)"):
        read_links(file)


def test_any_other_id_can_be_that_of_a_broker() -> None:
    assert [name_fault(id_) for id_ in ("7", "b-1", "Αθήνα", "a b", "é" * 127)] == [None] * 5


# What a network loses with a broker.


def test_a_network_that_had_two_ways_and_has_one_has_lost_redundancy() -> None:
    ring = {"a": {"b"}, "b": {"c"}, "c": {"d"}, "d": {"a"}}
    assert redundancy_lost(ring, "a", []) == (["c"], [("b", "c"), ("c", "d")])
    triangle = both_ways({"a": {"b", "c"}, "b": {"c"}, "c": set()})
    assert redundancy_lost(triangle, "b", []) == ([], [("a", "c")])


def test_brokers_may_be_missed_where_links_are_not() -> None:
    # Two triangles with c in common, and another way between them past c, by way of x.
    links = {"a": {"b", "c"}, "b": {"c"}, "c": {"d", "e"}, "d": {"e"}, "e": set(), "x": {"a", "e"}}
    assert redundancy_lost(links, "x", []) == (["c"], [])


def test_who_never_had_another_way_loses_none() -> None:
    path = {"a": {"b"}, "b": {"c"}, "c": {"d"}, "d": set()}
    assert redundancy_lost(path, "d", []) == ([], [])
    assert redundancy_lost(path, "b", [("a", "c")]) == ([], [])
    star = {"hub": {"a", "b", "c"}, "a": set(), "b": set(), "c": set()}
    assert redundancy_lost(star, "hub", [("a", "b"), ("b", "c")]) == ([], [])
    # One that had died before has no links any more.
    assert redundancy_lost(path, "dead", []) == ([], [])


def test_a_network_with_ways_to_spare_loses_none() -> None:
    full = {"a": {"b", "c", "d"}, "b": {"c", "d"}, "c": {"d"}, "d": set()}
    assert redundancy_lost(full, "a", []) == ([], [])
