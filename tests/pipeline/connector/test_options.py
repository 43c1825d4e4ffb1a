"""Options of the format `tidings`: each is understood or refused, and a password is shown nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidings.errors import InputError, SetupError
from tidings.pipeline.connector.options import read_options, write_options


def test_names_are_of_any_case_and_the_path_is_the_topic() -> None:
    options = read_options({"URL": "http://b:1", "path": "t", "FAILONDATALOSS": "false"}, streaming=False)
    assert (options.access.url, options.topic, options.fail_on_data_loss) == ("http://b:1", "t", False)


def test_a_batch_begins_with_the_earliest_and_a_stream_with_the_latest() -> None:
    assert read_options({"topic": "t"}, streaming=False).start == "earliest"
    assert read_options({"topic": "t"}, streaming=True).start == "latest"


@pytest.mark.parametrize(
    ("given", "streaming", "reason"),
    [
        ({}, False, "no topic is given"),
        ({"topic": "t", "startingOffset": "latest"}, True, "did you mean startingOffsets"),
        ({"topic": "t", "endingOffsets": "latest"}, True, "endingOffsets is for spark.read"),
        ({"topic": "t", "maxRowsPerBatch": "9"}, False, "maxRowsPerBatch is for spark.readStream"),
        ({"topic": "t", "startingOffsets": "latest"}, False, "reads nothing in a batch"),
        ({"topic": "t", "endingOffsets": "earliest"}, False, "reads nothing"),
        ({"topic": "t", "what": "all"}, False, "one of events, reports"),
        ({"topic": "t", "failOnDataLoss": "no"}, False, "one of true, false"),
        ({"topic": "t", "rowsPerPartition": "0"}, False, "a whole number above 0"),
        ({"topic": "t", "maxRowsPerBatch": "0"}, True, "a whole number above 0"),
        ({"topic": "t", "maxRowsPerBatch": "-5"}, True, "a whole number above 0"),
        ({"topic": "t", "maxRowsPerBatch": "9" * 5000}, True, "a whole number above 0"),
        ({"topic": "t", "startingOffsets": "2999-01-01T00:00:00Z"}, True, "is still to come"),
        (
            {
                "topic": "t",
                "startingOffsets": "2026-11-15T11:05:00Z",
                "endingOffsets": "2026-11-15T11:04:59Z",
            },
            False,
            "endingOffsets 2026-11-15T11:04:59Z is before startingOffsets",
        ),
        ({"topic": "t", "pushdown": "true"}, True, "pushdown is for spark.read"),
        ({"topic": "t", "tlsKey": "key.pem"}, False, "tlsKey is given without tlsCertificate"),
        ({"topic": "t", "patience": "30"}, False, "patience"),
        ({"topic": "t", "password": "a", "passwordFile": "b"}, False, "both given"),
    ],
)
def test_what_cannot_be_meant_is_refused(given: dict[str, str], streaming: bool, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        read_options(given, streaming=streaming)


def test_a_password_is_taken_from_a_file_or_a_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDINGS_USER", "ann")
    monkeypatch.setenv("TIDINGS_PASSWORD", "from the environment")
    options = read_options({"topic": "t"}, streaming=False)
    assert (options.access.user, options.access.password) == ("ann", "from the environment")
    file = tmp_path / "secret"
    file.write_text("from the file\n", encoding="utf-8")
    assert write_options({"passwordFile": str(file)}).access.password == "from the file"
    with pytest.raises(SetupError, match="cannot be read"):
        write_options({"passwordFile": str(tmp_path / "none")})


def test_a_password_is_in_no_text() -> None:
    options = read_options({"topic": "t", "user": "ann", "password": "geheim"}, streaming=False)
    assert "geheim" not in repr(options) + str(options) + repr(options.access.reader())
