"""Plain files that plans are made from."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidings.cli.plan import files
from tidings.errors import InputError

LINES = "a,b,3\nb,a,1\nc , a,2.5\né,b,1e3\n\na,b,4\n"


def read(path: Path, text: str, *, fast: bool, monkeypatch: pytest.MonkeyPatch) -> object:
    path.write_text(text, encoding="utf-8")
    monkeypatch.setattr(files, "LARGE_BYTES", 0 if fast else 10**9)
    flows = files.traffic(path, ["z", "a"])
    columns = (flows.senders, flows.receivers, flows.messages)
    return flows.clients, [column.tolist() for column in columns]


@pytest.mark.parametrize(
    "text",
    [
        LINES,
        "from,to,messages\n" + LINES,
        "\ufefffrom,to,messages\n" + LINES,
        "# made by hand\n" + LINES,
        LINES + "#u,v,3\n",
        LINES + "# u,v,3\n#\n",
        'a,"b, c",1_000\n',
        "a,b,3\r\nb,a,4",
        "NA,null,1\n",
    ],
)
def test_a_large_file_of_traffic_is_read_as_a_small_one(
    tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, fast = (
        read(tmp_path / "traffic.csv", text, fast=fast, monkeypatch=monkeypatch) for fast in (False, True)
    )
    assert fast == slow


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("from,to\na,b,3\n", "line 1: 'from,to' has 2 fields; it is from,to,messages"),
        ("a,b,3\na,b\n", "line 2: 'a,b' has 2 fields"),
        ("a,b,3\na,b,many\n", "line 2: messages is 'many'; give a number"),
        ("a,b,3\n,b,1\n", "line 2: from is empty; give a name"),
        ("a,b,3\na,b,\n", "line 2: messages is ''; give a number"),
        ("a,b,3\nb,a,nan\n", "'b' sent nan messages to 'a'"),
        ("a,b,3\nb,a,-1\n", "'b' sent -1.0 messages to 'a'"),
    ],
)
def test_what_is_wrong_in_a_large_file_is_told_as_of_a_small_one(
    tmp_path: Path, text: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for fast in (False, True):
        with pytest.raises(InputError, match=says):
            read(tmp_path / "traffic.csv", text, fast=fast, monkeypatch=monkeypatch)


def test_a_comment_has_a_space_and_a_name_may_begin_with_a_hash(tmp_path: Path) -> None:
    path = tmp_path / "rates.csv"
    path.write_text("# per second\n#\n#x,1,5\n# y,1,5\n", encoding="utf-8")
    assert list(files.triples(path, ("topic", "broker", "rate"))) == [("#x", "1", 5.0)]


@pytest.mark.parametrize("header", ["a,b", "a,b,length"])
def test_a_header_may_leave_out_what_lines_may_leave_out(tmp_path: Path, header: str) -> None:
    path = tmp_path / "links.csv"
    path.write_text(f"{header}\n1,2\n2,3,4\n", encoding="utf-8")
    assert list(files.links(path)) == [(2, "1", "2", 1.0), (3, "2", "3", 4.0)]


def test_a_large_file_that_is_no_text_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LARGE_BYTES", 0)
    (tmp_path / "traffic.csv").write_bytes(b"\xff\xfe,b,1\n")
    with pytest.raises(InputError, match="is not text in UTF-8"):
        files.traffic(tmp_path / "traffic.csv", [])
