"""What a test can keep true in the documents, this one does: commands, targets, folders, links, examples."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tidings import parse_filter, read_topic
from tidings.errors import FilterError
from tidings.gathering import Gatherer
from tidings.language.reports import Shape
from tidings.language.topics import StaysOpen

SKIPPED = {".git", ".venv", "dist", "build", "node_modules", "__pycache__", "tidings-demo"}

# Spelled in two parts, so that this file passes its own test.
BARE = "tid" + "ings"
HOSTS = re.compile(
    r"\b(?:test\.)?pyp" + r"i\.(?:org|python\.org)|\bpython" + r"hosted\b|\bconda\.anaconda\b", re.I
)
INSTALL_BY_NAME = re.compile(
    r"(?:pip[0-9.]*|pipx|uv|poetry|conda)\b[^\n`|]*\b(?:install|add)\s+(?:-\S+\s+)*['\"]?"
    + BARE
    + r"(?:-network)?(?![-\w./])"
)


def texts(root: Path) -> Iterator[Path]:
    """Every file of ours that is text."""
    for file in sorted(root.rglob("*")):
        parts = file.relative_to(root).parts
        if not file.is_file() or any(part in SKIPPED or part.endswith("_cache") for part in parts):
            continue
        if file.suffix in {".py", ".md", ".toml", ".lock", ".sh", ".properties", ".json", ".jsonl"} or (
            file.name in {"Makefile", "run"}
        ):
            yield file


def pages(root: Path) -> list[Path]:
    return [file for file in texts(root) if file.suffix == ".md"]


def test_no_file_says_to_install_by_name(root: Path) -> None:
    """The bare name is of others, and no index has ours: a checkout or a wheel is what can be installed."""
    found = [
        f"{file.relative_to(root)}: {match[0]}"
        for file in texts(root)
        for match in INSTALL_BY_NAME.finditer(file.read_text(encoding="utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize(
    ("text", "by_name"),
    [
        ("pip install %s", True),
        ("pip install --upgrade '%s[spark]'", True),
        ("uv add %s", True),
        ("pip install %s-network", True),
        ("pip install '%s-network[spark]'", True),
        ("pip install '.[spark]'", False),
        ("pip install 'dist/%s_network-0.1.0-py3-none-any.whl[spark]'", False),
        ("pip uninstall django-%s && pip install --no-deps .", False),
    ],
)
def test_a_name_is_told_from_a_place(text: str, by_name: bool) -> None:
    assert (INSTALL_BY_NAME.search(text.replace("%s", BARE)) is not None) is by_name


def test_no_file_names_a_package_index(root: Path) -> None:
    found = [
        f"{file.relative_to(root)}: {match[0]}"
        for file in texts(root)
        for match in HOSTS.finditer(file.read_text(encoding="utf-8"))
    ]
    assert found == []


OWN = {
    "access.toml",  # examples/access.toml is one
    "athens-1.toml",  # docs/configuration.md says what is in it
    "/etc/tidings/athens-1.toml",
    "road.toml",  # any declaration
    "rtt_ms.csv",  # measured by others
    "rtt_ms_median18.csv",
    "services.csv",
}
"""Files in commands of pages that are the reader's own."""


def test_files_in_the_commands_of_pages_exist(root: Path) -> None:
    """Each is in the checkout, or a command on the same page or `make demo` writes it."""
    missing = []
    for page in pages(root):
        blocks = re.findall(r"^ *```(?:sh)?\n(.*?)^ *```", page.read_text(encoding="utf-8"), re.S | re.M)
        lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
        commands = [line for line in lines if re.match(r"[ $]*tidings ", line)]
        written = {name for line in commands for name in re.findall(r"(?:--out|>) ([^\s\]]+)", line)}
        missing += [
            f"{page.relative_to(root)}: {name}"
            for line in commands
            for name in re.findall(r"(?<![\w/$.-])[\w./-]+\.(?:toml|csv|jsonl?|graphml)\b", line)
            if not (root / name).exists()
            and not name.startswith("tidings-demo/")
            and name not in written | OWN
        ]
    assert missing == []


def test_links_between_files_lead_somewhere(root: Path) -> None:
    broken = [
        f"{page.relative_to(root)} -> {target}"
        for page in pages(root)
        for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8"))
        if "://" not in target
        and not target.startswith("#")
        and not (page.parent / target.partition("#")[0]).exists()
    ]
    assert broken == []


def test_links_to_a_heading_lead_to_one(root: Path) -> None:
    broken = []
    for page in pages(root):
        for target, anchor in re.findall(r"\]\(([^)\s#]*)#([^)\s]+)\)", page.read_text(encoding="utf-8")):
            other = page.parent / target if target else page
            if "://" not in target and anchor not in anchors(other.read_text(encoding="utf-8")):
                broken.append(f"{page.relative_to(root)} -> {target}#{anchor}")
    assert broken == []


def anchors(markdown: str) -> set[str]:
    """The names of headings as forges make them."""
    headings = re.findall(r"^#+ (.+)$", markdown, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def test_every_test_that_a_page_names_as_proof_exists(root: Path) -> None:
    named = {
        (str(page.relative_to(root)), file, name)
        for page in pages(root)
        for file, name in re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", page.read_text(encoding="utf-8"))
    }
    assert named
    missing = [
        f"{page}: {file}::{name}"
        for page, file, name in sorted(named)
        if not (root / file).exists() or f"def {name}(" not in (root / file).read_text(encoding="utf-8")
    ]
    assert missing == []


def test_every_make_target_in_the_documents_exists(root: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (root / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = {
        (str(page.relative_to(root)), target)
        for page in pages(root)
        for target in re.findall(r"(?:^\s*|`)make ([a-z-]+)", page.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert {(page, target) for page, target in named if target not in targets} == set()
    assert {target for page, target in named if page == "README.md"} >= {"demo", "test"}


def test_the_code_map_and_the_tree_agree(root: Path) -> None:
    """Every folder that ARCHITECTURE.md draws is there, and every folder that is there is drawn."""
    drawn = set(
        re.findall(
            r"^  ([a-z_]+)(?:/|\.py) ", (root / "ARCHITECTURE.md").read_text(encoding="utf-8"), re.MULTILINE
        )
    )
    package = root / "src" / "tidings"
    there = {folder.parent.name for folder in package.glob("*/__init__.py")}
    modules = {file.stem for file in package.glob("*.py")}
    assert drawn == there | modules


def test_the_formats_are_those_that_the_code_reads(root: Path) -> None:
    from tidings.history import segments
    from tidings.live import store
    from tidings.overlay.links import messages
    from tidings.pipeline.gather import engines
    from tidings.planning import plans
    from tidings.records import schema

    page = (root / "docs" / "operations.md").read_text(encoding="utf-8")
    section = page.partition("## Formats and releases")[2].partition("\n## ")[0]
    found = re.findall(r"^\| (.*?) \|.*\| (\d+) \|$", section, re.MULTILINE)
    assert found == [
        ("the store, `store.sqlite`", str(store.FORMAT)),
        ("segments of logs, `history/`", str(segments.FORMAT)),
        ("segments of records", str(schema.FORMAT)),
        ("plans", str(plans.FORMAT)),
        ("states of `pipeline gather --follow`", str(engines.FORMAT)),
        ("the [protocol](protocol.md) between brokers", str(messages.PROTOCOL_VERSION)),
    ]


def test_the_decisions_are_listed(root: Path) -> None:
    """Each page in docs/design is dated and reachable from the list of them."""
    design = root / "docs" / "design"
    listed = set(re.findall(r"\]\((\d{4}-[^)]+\.md)\)", (design / "README.md").read_text(encoding="utf-8")))
    there = {file.name for file in design.glob("[0-9]*.md")}
    assert listed == there
    undated = [
        name
        for name in there
        if not re.search(r"\b20\d\d-\d\d-\d\d\b", (design / name).read_text(encoding="utf-8"))
    ]
    assert undated == []


def test_the_example_in_the_readme_runs(root: Path, tmp_path: Path) -> None:
    """Its Python blocks, one after the other, print what the comments beside them say."""
    blocks = re.findall(
        r"^```python\n(.*?)^```", (root / "README.md").read_text(encoding="utf-8"), re.S | re.M
    )
    assert blocks
    script = "".join(blocks)
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    promised = re.findall(r"print\(.*\)\s+# (.+)$", script, re.MULTILINE)
    assert done.stdout.splitlines() == promised


def test_a_blocked_road_is_one_event_as_the_readme_says(root: Path) -> None:
    """For two hours, every 20 s: 120 events where only news keeps one open, one as the example declares."""
    topic = read_topic(root / "examples" / "traffic-athens.toml")
    assert topic.gathering is not None
    published = replace(topic.gathering, stays_open=StaysOpen.MERGED, window_us=600_000_000)
    opened = []
    for rules in (published, topic.gathering):
        gatherer, shape = Gatherer(replace(topic, gathering=rules)), Shape(topic)
        for second in range(0, 7_200, 20):
            fields = {"place": "Syntagma", "road": "A1"}
            report = shape.report(topic.name, fields, report_id=str(second), at_us=second * 1_000_000)
            gatherer.feed(report)
        opened.append(gatherer.counts.opened)
    assert opened == [120, 1]
    readme = (root / "README.md").read_text(encoding="utf-8")
    assert "reported every 20 s, would otherwise be 120 of them" in readme


# The command line

UNSHIPPED = re.compile(
    r"\b(?:docs|examples|benchmarks|tests|tools)/[\w./-]+|\b[\w/-]+\.md\b"  # folders of a checkout, pages
    r"|\b[\w-]+/[\w./-]+\.(?:toml|csv|jsonl?|py|ipynb)\b|`make "  # a user's own files need no folder
)


def test_help_names_nothing_that_the_wheel_does_not_ship() -> None:
    from tidings.cli import EPILOG
    from tidings.cli.commands import GROUPS

    texts = {"the epilog": EPILOG, **GROUPS}
    for name, command in commands().items():
        texts[name] = "\n".join([command.help, *(one.help or "" for one in command.params)])
    found = [f"{name}: {text}" for name, said in texts.items() for text in UNSHIPPED.findall(said)]
    assert found == []


def test_messages_name_nothing_that_the_wheel_does_not_ship(root: Path) -> None:
    """What the code says is in strings; strings that stand alone are for its readers."""
    found = []
    for file in (root / "src").rglob("*.py"):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        found += [
            f"{file.relative_to(root)}:{node.lineno}: {text}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone
            for text in UNSHIPPED.findall(node.value)
        ]
    assert found == []


def test_a_mistake_is_pointed_at_as_the_readme_shows(root: Path) -> None:
    with pytest.raises(FilterError) as raised:
        parse_filter("severity >= 3 AND road LIK 'A%'")
    assert str(raised.value) in (root / "README.md").read_text()


def commands() -> dict[str, Any]:
    """Every command that `tidings --help` leads to, by its whole name."""
    import typer

    from tidings.cli import LazyCommand, app

    found: dict[str, Any] = {}

    def walk(name: str, command: object) -> None:
        below: dict[str, object] = getattr(command, "commands", {})
        if isinstance(command, LazyCommand):
            found[name] = command.loaded()
        for word, inner in below.items():
            walk(f"{name} {word}", inner)

    walk("tidings", typer.main.get_command(app))
    return found


def test_every_command_is_in_the_docs(root: Path) -> None:
    page = (root / "docs" / "cli.md").read_text(encoding="utf-8")
    assert [name for name in commands() if not re.search(rf"^#+ .*`{name}`", page, re.MULTILINE)] == []


def test_every_option_is_in_the_docs(root: Path) -> None:
    page = (root / "docs" / "cli.md").read_text(encoding="utf-8")
    missing = [
        f"{name} {option}"
        for name, command in commands().items()
        for parameter in command.params
        for option in parameter.opts
        if option.startswith("--") and not re.search(rf"{option}\b", page)
    ]
    assert missing == []


def test_help_leads_to_the_glossary() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from tidings.cli import main; main()", "--help"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "glossary" in done.stdout
