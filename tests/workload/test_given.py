"""What a spec names: hierarchies from the package, from files and from the spec; counts; places."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tidings.errors import InputError
from tidings.workload import given, hierarchies, reading, regions
from tidings.workload.spec import Counts, Dimension, Network, Spec

SMALL = Spec(
    dimensions=(
        Dimension("subject", nodes=hierarchies.from_nested("subject", "all", ["soccer", "tea"])),
        Dimension("language", nodes=hierarchies.from_nested("language", "all", ["English", "Korean"])),
    ),
    network=Network(nodes=50),
)


def from_file(tmp_path: Path, text: str, name: str = "topics.csv") -> hierarchies.Hierarchy:
    (tmp_path / name).write_text(text, encoding="utf-8")
    return given.hierarchy(Dimension("subject", file=str(tmp_path / name)))


def test_the_default_has_subjects_and_languages() -> None:
    subjects, languages = (given.hierarchy(dimension) for dimension in Spec().dimensions)
    assert (subjects.name, languages.name) == ("subject", "language")
    assert len(subjects.leaves) * len(languages.leaves) == 37_788
    assert 10 <= len(subjects.children[0]) <= 14
    assert {subjects.depths[leaf] for leaf in subjects.leaves} == {2, 3, 4}
    path = languages.parents[languages.parents[languages.numbers["Korean"]]]
    assert languages.nodes[path] == "Asian languages"


def test_no_node_of_the_default_has_an_only_child() -> None:
    """It would have the interval of its parent."""
    for dimension in Spec().dimensions:
        assert 1 not in {len(below) for below in given.hierarchy(dimension).children}


def test_a_bundled_hierarchy_has_the_name_of_its_dimension() -> None:
    assert given.hierarchy(Dimension("tongue", hierarchy="languages")).name == "tongue"


def test_a_hierarchy_is_read_from_csv(tmp_path: Path) -> None:
    found = from_file(tmp_path, "\ufeffchild,parent,note\nsport,all,\nsoccer,sport,x\n\ntea , all,\n")
    assert found.nodes == ("all", "sport", "soccer", "tea")


def test_a_hierarchy_is_read_from_toml(tmp_path: Path) -> None:
    found = from_file(tmp_path, 'tea = []\nsport = ["soccer"]', "topics.toml")
    assert found.nodes == (reading.ROOT, "tea", "sport", "soccer")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("child,parent\na,b\nb,a\n", "has a cycle: 'b' below 'a' below 'b'"),
        ("child,parent\na,b\na,c\n", "'a' has two parents"),
        ("child,parent\na,b\nc,d\n", "has 2 roots"),
        ("child,parent\n", "is empty"),
        ("", "the header is ''; it must begin with child,parent"),
        ("child,parent\na,b\nc\n", "line 3 is 'c'; give child,parent"),
        ('child,parent\n"a,b\n', "is neither CSV"),
    ],
)
def test_a_hierarchy_that_is_none_is_refused_with_its_file(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        from_file(tmp_path, text)
    assert said in str(caught.value)
    assert "topics.csv" in str(caught.value)


def test_what_is_not_toml_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="neither CSV of child,parent nor TOML"):
        from_file(tmp_path, "tea = ", "topics.toml")


def test_without_a_file_of_counts_there_is_the_model() -> None:
    read = given.read(SMALL)
    assert read.regions == regions.REGIONS
    assert read.members.shape == (2, 2, len(regions.REGIONS))
    assert read.members.sum() == SMALL.counts.total
    assert set(read.nodes.region.tolist()) == set(range(len(regions.REGIONS)))


def test_the_spec_may_have_fewer_regions() -> None:
    read = given.read(replace(SMALL, regions=("US", "Asia")))
    assert read.regions == ("US", "Asia")
    assert read.members.shape == (2, 2, 2)


def counts_file(tmp_path: Path, region: str) -> Spec:
    path = tmp_path / "counts.csv"
    path.write_text(f"subject,language,region,members,messages\ntea,Korean,{region},7,1\n", encoding="utf-8")
    return replace(SMALL, counts=Counts(file=str(path)))


def test_regions_are_those_of_the_file_of_counts(tmp_path: Path) -> None:
    read = given.read(counts_file(tmp_path, "Asia"))
    assert (read.regions, read.members[1, 1].tolist()) == (("Asia",), [7])


def test_a_region_without_positions_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'Mars'"):
        given.read(counts_file(tmp_path, "Mars"))


def test_an_array_that_is_too_large_is_refused() -> None:
    many = Dimension("a", nodes=hierarchies.from_nested("a", "all", [f"n{one}" for one in range(3000)]))
    with pytest.raises(InputError, match="72,000,000 combinations; at most 50,000,000"):
        given.read(replace(SMALL, dimensions=(many, replace(many, name="b"))))


def test_what_is_in_a_named_file_is_part_of_the_spec(tmp_path: Path) -> None:
    file = tmp_path / "counts.csv"
    file.write_text("subject,language,region,members,messages\n", encoding="utf-8")
    spec = reading.read(None, {"counts.file": str(file)})
    before = given.digests(spec)
    assert list(before) == ["counts.file"]
    file.write_text("subject,language,region,members,messages\n\n", encoding="utf-8")
    assert given.digests(spec) != before
    assert given.digests(reading.read(None)) == {}
