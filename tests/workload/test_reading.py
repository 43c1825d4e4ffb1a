"""Specs: all that is wrong is said at once, and a spec that is written reads to itself."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.errors import InputError
from tidings.workload import hierarchies, options, reading
from tidings.workload.regions import REGIONS
from tidings.workload.spec import Counts, Dimension, Removal, Spec


def spec_of(tmp_path: Path, text: str, **changes: str) -> Spec:
    path = tmp_path / "spec.toml"
    path.write_text(text, encoding="utf-8")
    return reading.read(path, {name.replace("__", "."): value for name, value in changes.items()})


def problems(tmp_path: Path, text: str, **changes: str) -> str:
    with pytest.raises(InputError) as caught:
        spec_of(tmp_path, text, **changes)
    return str(caught.value)


def test_without_a_file_it_is_the_default() -> None:
    assert reading.read(None) == Spec()


def test_an_empty_file_is_the_default(tmp_path: Path) -> None:
    assert spec_of(tmp_path, "") == Spec()


def test_a_default_spec_can_be_hashed() -> None:
    assert len({Spec(), Spec(), Spec(seed=2)}) == 2


def test_sections_are_read(tmp_path: Path) -> None:
    spec = spec_of(
        tmp_path, 'seed = 7\nregions = ["Asia", "US"]\n[removal]\ntop = 24\n[time]\nduration = "2h"'
    )
    assert (spec.seed, spec.regions, spec.removal) == (7, ("Asia", "US"), Removal(top=24))
    assert spec.time.duration_us == 7_200_000_000


def test_a_date_of_toml_is_a_start(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, "[time]\nstart = 2026-11-02T01:00:00+01:00")
    assert spec.time.start == "2026-11-02T00:00:00Z"
    assert spec_of(tmp_path, "[time]\nstart = 2026-11-02").time.start == "2026-11-02"


def test_changes_win(tmp_path: Path) -> None:
    spec = spec_of(
        tmp_path,
        "seed = 7\n[sizes]\nbrokers = 3\nevents = 5\n",
        seed="8",
        sizes__brokers="4",
        time__start="2026-11-03",
        subscriptions__where="false",
        sampling__method="naive",
    )
    assert (spec.seed, spec.sizes.brokers, spec.sizes.events, spec.time.start) == (8, 4, 5, "2026-11-03")
    assert (spec.subscriptions.where, spec.sampling.method) == (False, "naive")


def test_a_change_cannot_smuggle_in_another(tmp_path: Path) -> None:
    assert "sizes.events is '5\\nseed = 9'" in problems(tmp_path, "", sizes__events="5\nseed = 9")


def test_a_change_of_one_dimension_keeps_the_others(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, "", dimensions__subject__nodes='["a", "b"]')
    assert [one.name for one in spec.dimensions] == ["subject", "language"]
    assert spec.dimensions[0].nodes == hierarchies.from_nested("subject", reading.ROOT, ["a", "b"])
    assert spec.dimensions[1] == Spec().dimensions[1]


def test_files_are_relative_to_the_spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("counts.csv", "topics.csv"):
        (tmp_path / name).write_text("child,parent\na,all\n", encoding="utf-8")
    text = '[counts]\nfile = "counts.csv"\n[dimensions.subject]\nfile = "topics.csv"'
    spec = spec_of(tmp_path, text)
    assert (spec.counts.file, spec.dimensions) == (
        str(tmp_path / "counts.csv"),
        (Dimension("subject", file=str(tmp_path / "topics.csv")),),
    )


def test_files_of_changes_are_relative_to_where_one_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    (here / "mine.csv").touch()
    monkeypatch.chdir(here)
    assert spec_of(tmp_path, "", counts__file="mine.csv").counts.file == str(here / "mine.csv")


def test_dimensions_keep_their_order_and_there_may_be_three(tmp_path: Path) -> None:
    text = """
        [dimensions.place]
        nodes = { north = ["a", "b"], south = ["c"] }
        [dimensions.language]
        hierarchy = "languages"
        [dimensions.size]
        nodes = ["small", "large"]
    """
    assert [one.name for one in spec_of(tmp_path, text).dimensions] == ["place", "language", "size"]


def test_everything_wrong_is_said_at_once(tmp_path: Path) -> None:
    said = problems(
        tmp_path,
        """
        seed = -1
        sizs = 3
        regions = ["Asia", "Asia", "Atlantis"]
        diffusion = 0.5
        [sizes]
        brokers = 0
        evnts = 5
        [removal]
        top = 3
        threshold = 5
        [events]
        cell = "2d"
        [counts]
        file = ""
        [network]
        places = "nowhere.csv"
        [links]
        overlay = "topohub"
        """,
    )
    assert [line.partition(": ")[2] for line in said.splitlines()] == [
        "seed is -1; give a whole number from 0 to 9,223,372,036,854,775,807",
        "sizs is not known; is it 'sizes'?",
        "regions has 'Asia' twice; name each once",
        "diffusion is 0.5; it is a section, so give [diffusion] with keys below it",
        "sizes.brokers is 0; give a whole number from 1 to 100,000",
        "sizes.evnts is not known; is it 'events'?",
        "removal.top and removal.threshold are set; interests are removed by one of them",
        "events.cell must be more than 0 and no longer than time.duration",
        "network.places says where the nodes of network.latency are, which is not set; set both",
        'links.overlay = "topohub" and links.topology go together; set both or neither',
        f"network.places: there is no file {tmp_path / 'nowhere.csv'}",
        f"regions: 'Atlantis' is not known to the model of counts; there are {', '.join(REGIONS)}",
    ]


def test_what_is_wrong_in_files_of_hierarchies_is_said_with_the_rest(tmp_path: Path) -> None:
    topics, places = tmp_path / "topics.csv", tmp_path / "places.toml"
    topics.write_text("child,parent\na,b\na,c\n", encoding="utf-8")
    places.write_text("north = 3", encoding="utf-8")
    twice = "hierarchy 'subject': 'a' has two parents, 'b' and 'c'"
    nested = "hierarchy 'place': below 'north' is 3"
    said = problems(
        tmp_path,
        """
        seed = -1
        [dimensions.subject]
        file = "topics.csv"
        [dimensions.place]
        file = "places.toml"
        [time]
        duration = "0"
        """,
    )
    assert [line.partition(": ")[2] for line in said.splitlines()] == [
        "seed is -1; give a whole number from 0 to 9,223,372,036,854,775,807",
        "time.duration is 0; something must have time to happen, so give more",
        "events.cell must be more than 0 and no longer than time.duration",
        f"dimensions.subject.file: {topics}: {twice}; give it one",
        f"dimensions.place.file: {places}: {nested}; give a table of nodes or a list of names",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[time]\nduration = '0'", "time.duration is 0"),
        ("[time]\nstart = 'soon'", "time.start: 'soon' is not a timestamp"),
        ("[time]\nduration = 5", "time.duration is 5; give a length of time"),
        ("[events]\ncell = '1us'", "make the cells longer"),
        ("[events]\ndrift = 1\nepoch = '0'", "events.epoch is 0"),
        ("[events]\nflashes = 1\nflash_length = '2d'", "events.flash_length must be"),
        ("dimensions = 3", "dimensions is 3"),
        ("[dimensions]", "dimensions is {}"),
        ("[dimensions.subject]\nhierarchy = 'birds'", "bundled are 'subjects' and 'languages'"),
        ("[dimensions.subject]\nfile = 'no.csv'", "dimensions.subject.file: there is no file"),
        ("[dimensions.subject]\nfile = 5", "dimensions.subject.file is 5; give a text"),
        ("[dimensions.subject]\nfile = 'a'\nhierarchy = 'subjects'", "give one of hierarchy"),
        ("[dimensions.subject]\nnodes = ['a', 'a']", "'a' has two parents"),
        ("[dimensions.subject]\nnodes = []", "hierarchy 'subject' is empty"),
        ("[dimensions.subject]\nnodes = 5", "below 'all' is 5"),
        ("[dimensions.'a b']\nhierarchy = 'subjects'", "letters, digits and _"),
        ("[dimensions.between]\nhierarchy = 'subjects'", "means something else in a filter"),
        ("[dimensions.story]\nhierarchy = 'subjects'", "something else of this name"),
        ("[dimensions.Severity]\nhierarchy = 'subjects'", "something else of this name"),
        ("[dimensions.region]\nhierarchy = 'subjects'", "something else of this name"),
        ("[dimensions.detail1]\nhierarchy = 'subjects'", "something else of this name"),
        ("[dimensions.a_lo]\nhierarchy = 'subjects'", "something else of this name"),
        (
            "[dimensions.a]\nhierarchy = 'subjects'\n[dimensions.A]\nhierarchy = 'subjects'",
            "differ only in upper and lower case",
        ),
        ("regions = 'Asia'", "give a list of names"),
        ("seed = true", "seed is True"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, said: str) -> None:
    assert said in problems(tmp_path, text)


def test_what_is_not_toml_is_refused(tmp_path: Path) -> None:
    assert "is not TOML" in problems(tmp_path, "seed = ")


def test_a_spec_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no\.toml cannot be read"):
        reading.read(tmp_path / "no.toml")


def sections() -> st.SearchStrategy[Spec]:
    """Specs with any values that are right by themselves."""
    values: dict[type, Any] = {
        int: st.integers(0, 90_000),
        float: st.floats(0, 1),
        bool: st.booleans(),
    }
    drawn: dict[str, st.SearchStrategy[Any]] = {}
    for name in reading.section_names():
        kind = type(getattr(Spec(), name))
        keys: dict[str, st.SearchStrategy[Any]] = {}
        for one in fields(kind):
            rule: options.Rule = one.metadata["rule"]
            if type(one.default) in values:
                keys[one.name] = values[type(one.default)].map(
                    lambda value, rule=rule, one=one: (
                        value if _fits(rule, rule.written(value)) else one.default
                    )
                )
        drawn[name] = st.builds(replace, st.just(kind()), **keys)
    return st.builds(Spec, seed=st.integers(0, 2**63 - 1), **drawn)


def _fits(rule: options.Rule, value: Any) -> bool:
    try:
        rule.accepts(value)
    except ValueError:
        return False
    return True


names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=5).filter(
    lambda name: name != reading.ROOT
)


@st.composite
def trees(draw: st.DrawFn) -> hierarchies.Hierarchy:
    nodes = draw(st.lists(names, unique=True, min_size=1, max_size=12))
    pairs = [
        (node, draw(st.sampled_from([reading.ROOT, *nodes[:number]]))) for number, node in enumerate(nodes)
    ]
    return hierarchies.from_parents("place", pairs)


@given(spec=sections(), tree=trees(), regions=st.lists(names.filter(str.strip), unique=True, max_size=3))
def test_a_spec_that_is_written_reads_to_itself(
    spec: Spec, tree: hierarchies.Hierarchy, regions: list[str]
) -> None:
    whole = replace(
        spec,
        regions=tuple(regions),
        dimensions=(Dimension("place", nodes=tree), Spec().dimensions[1]),
        counts=replace(spec.counts, file="/some/counts.csv"),
    )
    assert reading.from_text(reading.written(whole)) == whole


def test_a_spec_with_files_reads_to_itself(tmp_path: Path) -> None:
    (tmp_path / 'a "b".csv').touch()
    spec = Spec(counts=Counts(file=str(tmp_path / 'a "b".csv')))
    assert spec_of(tmp_path, reading.written(spec)) == spec
