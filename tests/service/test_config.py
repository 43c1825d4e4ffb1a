"""The settings of a broker: what file, variables and flags make together, and all that can be wrong."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tidings.errors import ConfigurationError
from tidings.language.views import View
from tidings.mqtt.settings import Settings as MqttSettings
from tidings.overlay.settings import Settings
from tidings.service.config import PREFIX, SETTINGS, TABLE, Configuration, load, markdown
from tidings.service.values import address_text, is_loopback, read_address, read_size, size_text


def written(folder: Path, text: str) -> Path:
    file = folder / "broker.toml"
    file.write_text(text, encoding="utf-8")
    return file


def loaded(folder: Path, text: str = 'id = "b1"\n', **variables: str) -> Configuration:
    return load(written(folder, text), variables)


def problems(folder: Path, text: str = 'id = "b1"\n', **variables: str) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        loaded(folder, text, **variables)
    return [problem.removeprefix(f"{folder}/") for problem in caught.value.problems]


def test_a_file_with_an_id_is_enough(tmp_path: Path) -> None:
    configuration = loaded(tmp_path)
    assert configuration["id"] == "b1"
    assert configuration["listen"] == ("127.0.0.1", 7883)
    assert configuration["mqtt"] == ("127.0.0.1", 1883)
    assert configuration.settings == Settings()
    assert configuration.records is None
    assert configuration.warnings == ("no data folder is set: nothing survives a restart",)


def test_no_file_is_needed() -> None:
    assert load(None, {"TIDINGS_ID": "b1"})["id"] == "b1"
    assert load(None, {}, {"id": "b2"})["id"] == "b2"


def test_everything_can_be_said_in_a_file(tmp_path: Path, root: Path) -> None:
    (tmp_path / "token").write_text("open sesame\n", encoding="utf-8")
    (tmp_path / "token").chmod(0o600)
    configuration = loaded(
        tmp_path,
        f"""
id = "b1"
listen = "[::1]:0"
advertise = "broker.example:7883"
neighbours = ["b2.example:1883", "[::1]:1884"]
data = "data"
records = "kept"
http = "off"
network = "testing"
token_file = "token"
tls_authority = "ca.pem"
tls_certificate = "b1.pem"
tls_key = "b1.key"
topics = ["{root}/examples/traffic-athens.toml"]
trees = 3
heartbeat = "500ms"
suspect_after = "1500ms"
absent_hold_bytes = "1GiB"
overflow = "block"
link_window_messages = 7
log_level = "debug"
""",
    )
    assert configuration["listen"] == ("::1", 0)
    assert configuration["neighbours"] == (("b2.example", 1883), ("::1", 1884))
    assert configuration["data"] == tmp_path / "data"
    assert configuration.records == tmp_path / "kept"
    assert configuration["http"] is None
    assert configuration["tls_key"] == tmp_path / "b1.key"
    assert [topic.name for topic in configuration.topics] == ["traffic/athens"]
    assert configuration.settings == Settings(
        network="testing",
        token="open sesame",
        trees=3,
        heartbeat_s=0.5,
        suspect_after_s=1.5,
        absent_hold_bytes=1 << 30,
        overflow="block",
        link_window_messages=7,
    )
    assert configuration.warnings == ()


def test_variables_win_over_the_file_and_flags_over_variables(tmp_path: Path) -> None:
    file = written(tmp_path, 'id = "b1"\nheartbeat = "1s"\nnetwork = "of-file"\ntrees = 2\n')
    variables = {"TIDINGS_HEARTBEAT": "3s", "TIDINGS_NETWORK": "of-variable"}
    configuration = load(file, variables, {"network": "of-flag", "listen": None}, ["suspect_after=9s"])
    assert configuration.settings.trees == 2
    assert configuration.settings.heartbeat_s == 3.0
    assert configuration.settings.network == "of-flag"
    assert configuration.settings.suspect_after_s == 9.0


@pytest.mark.parametrize("name", SETTINGS)
def test_every_setting_is_also_a_variable(name: str, tmp_path: Path) -> None:
    """What a setting writes as text, its variable reads back."""
    others = {
        "id": "b7",
        "advertise": "h:1",
        "token": "secret",
        "data": "/d",
        "neighbours": "h:1,h:2",
        "topics": "",
        "token_file": "",
        "records": "/r",
        "tls_authority": "",
        "tls_certificate": "",
        "tls_key": "",
    }
    setting = SETTINGS[name]
    text = others.get(name, setting.default_text)
    configuration = load(None, {"TIDINGS_ID": "b1", f"TIDINGS_{name.upper()}": text})
    assert setting.variable == PREFIX + name.upper()
    if name in others and text:
        assert setting.kind.write(configuration[name]).replace(" ", "") == text
    else:
        assert configuration[name] == setting.default


def test_every_field_of_the_broker_can_be_set_and_has_its_default() -> None:
    fields = {field.name: field.default for field in dataclasses.fields(Settings)}
    rows = {setting.field: setting.default for setting in SETTINGS.values() if setting.field}
    assert rows == fields


def test_the_front_and_the_broker_bound_the_subscriptions_of_a_session_alike() -> None:
    configuration = load(None, {}, {"id": "a"}, ["mqtt_subscriptions_max=20000"])
    assert configuration.mqtt.subscriptions_max == 20_000
    assert configuration.settings.session_subscriptions_max == 20_000


@pytest.mark.parametrize("name", ["session_queue_bytes", "session_store_bytes", "session_subscriptions_max"])
def test_settings_of_attached_programs_are_gone(tmp_path: Path, name: str) -> None:
    (problem,) = problems(tmp_path, f'id = "a"\n{name} = 5\n')
    assert problem.startswith(f"broker.toml:2: there is no setting {name!r}; ")


def test_every_default_is_one_that_could_be_written() -> None:
    for setting in SETTINGS.values():
        if setting.default not in (None, ()) and not setting.secret:
            assert setting.kind.read(setting.default_text) == setting.default, setting.name


def test_all_problems_are_reported_at_once_with_their_places(tmp_path: Path) -> None:
    found = problems(
        tmp_path,
        """\
heartbeat = 2
neighbors = ["x:1"]
listen = "1883"

trees = 9
backlog_bytes = "lots"
link_subscriptions_max = 5
""",
        TIDINGS_HTTP="nowhere",
        TIDINGS_LINK_SUBSCRIPTIONS_MAX="5",
        TIDINGS_LOGLEVEL="info",
    )
    assert [problem.partition(": ")[0] for problem in found] == [
        "broker.toml:1",
        "broker.toml:2",
        "broker.toml:3",
        "broker.toml:5",
        "broker.toml:6",
        "broker.toml:7",
        "TIDINGS_LINK_SUBSCRIPTIONS_MAX",
        "TIDINGS_LOGLEVEL",
        "TIDINGS_HTTP",
        "broker.toml",
    ]
    text = "\n".join(found)
    assert "there is no setting 'neighbors'; did you mean neighbours?" in text
    assert "did you mean TIDINGS_LOG_LEVEL?" in text
    assert "'link_subscriptions_max' any more; homes_filters_max has taken its place" in text
    assert "did you mean TIDINGS_HOMES_FILTERS_MAX?" in text
    assert "heartbeat: 2 has no unit; write a number and a unit" in text
    assert "listen: '1883' is not an address; write host:port" in text
    assert "trees: 9 is not from 1 to 8" in text
    assert "backlog_bytes: 'lots' is not a size; write a number and a unit (GiB" in text
    assert "id is missing; every broker has its own" in text


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('listen = "host"', "is not an address"),
        ('listen = "host:70000"', "is not an address"),
        ('listen = "::1:1883"', "is not an address"),
        ("listen = 1883", "is not an address"),
        ('neighbours = ["host:0"]', "has port 0, which nobody can dial"),
        ("neighbours = 5", "is not a list"),
        ('id = ""', "is not an id: 1 to 255 printable characters"),
        ("id = 7", "is not an id"),
        ('heartbeat = "0s"', "is not from 1ms to"),
        ('heartbeat = "fast"', "is not a duration"),
        ('anonymous = "perhaps"', "is neither true nor false"),
        ("trees = true", "is not a whole number"),
        ("trees = 1.5", "is not a whole number"),
        ('acks = "all"', "is not one of 'origin', 'neighbour'"),
        ('data = ""', "is not a path"),
        ('log_level = "loud"', "is not one of 'debug'"),
        ('message_bytes_max = "1TB"', "is not a size"),
        ("message_bytes_max = 5", "is not a size"),
    ],
)
def test_a_bad_value_is_told_with_the_rule(tmp_path: Path, line: str, reason: str) -> None:
    found = problems(tmp_path, line + "\n", **({} if line.startswith("id") else {"TIDINGS_ID": "b1"}))
    assert len(found) == 1
    assert found[0].startswith(f"broker.toml:1: {line.partition(' ')[0]}: ")
    assert reason in found[0]


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ('heartbeat = "7s"', "suspect_after = 6s is too short beside heartbeat = 7s"),
        ('redial_min = "9s"', "redial_max = 5s is too short beside redial_min = 9s"),
        ('link_window_bytes = "64KiB"', "message_bytes_max = 1MiB is more than link_window_bytes = 64KiB"),
        ('tls_key = "k.pem"', "tls_key is given without tls_authority and tls_certificate; give all three"),
        ('http = "127.0.0.1:1883"', "http and mqtt are both 127.0.0.1:1883"),
        ('mqtt_ws = "127.0.0.1:7883"', "mqtt_ws and listen are both 127.0.0.1:7883"),
        ('mqtt_tls = "[::1]:8883"', "mqtt_tls is given without mqtt_certificate and mqtt_key"),
        ('mqtt_wss = "[::1]:1"\nmqtt_key = "k"', "mqtt_wss is given without mqtt_certificate"),
        ('mqtt_client_certificates = "required"', "give mqtt_client_authority"),
        ('mqtt_packet_bytes_max = "64KiB"', "is not enough for message_bytes_max"),
        ('token = "a"\ntoken_file = "b"', "token_file and token (broker.toml:2) are both given"),
        ('token_file = "missing"', "cannot be read: No such file"),
        ('topics = ["missing.toml"]', "missing.toml: there is no such file"),
    ],
)
def test_what_does_not_go_together_is_told(tmp_path: Path, lines: str, reason: str) -> None:
    found = problems(tmp_path, f'id = "b1"\n{lines}\n')
    assert len(found) == 1
    assert reason in found[0].replace(f"{tmp_path}/", "")
    assert found[0].startswith("broker.toml:")


def test_beside_a_bad_value_defaults_are_not_blamed(tmp_path: Path) -> None:
    assert len(problems(tmp_path, 'id = "b1"\nheartbeat = "7s"\nsuspect_after = "long"\n')) == 1


def test_a_bad_declaration_is_reported_with_its_own_lines(tmp_path: Path) -> None:
    (tmp_path / "t.toml").write_text('name = "a"\nkind = "odd"\nTm = 4\n', encoding="utf-8")
    found = problems(tmp_path, 'id = "b1"\ntopics = ["t.toml"]\n')
    assert [problem.split(": ")[1].rpartition("/")[2] for problem in found] == ["t.toml:2", "t.toml:3"]


def test_a_file_that_is_not_toml_is_told_with_its_line(tmp_path: Path) -> None:
    assert problems(tmp_path, 'id = "b1"\nlisten = \n', TIDINGS_ID="b1")[0].startswith("broker.toml:2: ")


def test_a_file_that_is_missing_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"nowhere\.toml: there is no such file"):
        load(tmp_path / "nowhere.toml", {"TIDINGS_ID": "b1"})


def test_assignments_are_checked_as_flags_are() -> None:
    with pytest.raises(ConfigurationError) as caught:
        load(None, {}, {"id": "b1"}, ["hartbeat=2s", "trees", "settle=2"])
    assert [problem.partition(";")[0] for problem in caught.value.problems] == [
        "--set hartbeat=2s: there is no setting 'hartbeat'",
        "--set trees: there is no value",
        "--set settle: settle: '2' is not a duration",
    ]


def test_a_token_that_others_may_read_is_warned_about(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("open sesame", encoding="utf-8")
    (tmp_path / "token").chmod(0o644)
    configuration = loaded(tmp_path, 'id = "b1"\ndata = "d"\ntoken_file = "token"\n')
    assert configuration.settings.token == "open sesame"
    assert "may read" in configuration.warnings[0]
    assert "chmod 600" in configuration.warnings[0]


def test_secrets_are_never_shown(tmp_path: Path) -> None:
    configuration = loaded(tmp_path, 'id = "b1"\ntoken = "sesame"\n')
    assert configuration.settings.token == "sesame"
    assert configuration.shown()["token"] == "(hidden)"
    assert "sesame" not in str(configuration.shown())
    found = problems(tmp_path, 'id = "b1"\n', TIDINGS_TOKEN="sesame\x07")
    assert "sesame" not in str(found)


def test_a_broker_open_to_all_is_warned_about(tmp_path: Path) -> None:
    open_to_all = 'id = "b1"\ndata = "d"\nlisten = "0.0.0.0:7883"\n'
    assert "whoever reaches it may join" in loaded(tmp_path, open_to_all).warnings[0]
    assert loaded(tmp_path, open_to_all, TIDINGS_TOKEN="x").warnings == ()


def test_an_mqtt_listener_open_to_all_is_warned_about(tmp_path: Path) -> None:
    public = 'id = "b1"\ndata = "d"\nmqtt = "0.0.0.0:1883"\n'
    (warning,) = loaded(tmp_path, public + "anonymous = true\n").warnings
    assert "may do everything" in warning
    (warning,) = loaded(tmp_path, public + 'users_file = "u"\n').warnings
    assert "passwords can be read on the way" in warning
    assert loaded(tmp_path, public + 'anonymous = true\naccess_file = "a"\n').warnings == ()


@pytest.mark.parametrize(
    ("lines", "open_"),
    [
        ("", False),
        ("anonymous = true", True),
        ('users_file = "u"', True),
        ('mqtt = "off"', True),
        ('mqtt_client_authority = "ca"', False),
        (
            'mqtt_client_authority = "ca"\nmqtt_tls = "[::1]:0"\nmqtt_certificate = "c"\nmqtt_key = "k"',
            True,
        ),
    ],
)
def test_a_broker_that_nobody_could_connect_to_is_told_with_the_way_out(
    tmp_path: Path, lines: str, open_: bool
) -> None:
    closed = loaded(tmp_path, f'id = "b1"\n{lines}\n').closed
    assert (not closed) is open_
    assert open_ or all(way in closed for way in ("tidings user add", "anonymous = true", "mqtt = 'off'"))


def test_views_are_tables_in_a_file_and_json_elsewhere(tmp_path: Path) -> None:
    text = 'id = "b1"\n[[views]]\nname = "severe"\nfrom = "traffic/#"\nwhere = "severity >= 3"\n'
    views = (View("severe", "traffic/#", "severity >= 3"),)
    of_file = loaded(tmp_path, text)
    assert of_file["views"] == views
    assert load(None, {"TIDINGS_VIEWS": of_file.shown()["views"]}, {"id": "b1"})["views"] == views
    assert "views: 5 is not a list" in problems(tmp_path, 'id = "b1"\nviews = 5\n')[0]
    (problem,) = problems(tmp_path, text.replace("severity >=", "severity >>="))
    assert problem.startswith("broker.toml:2: views: where: ")
    (problem,) = problems(tmp_path, text + '[[views]]\nname = "severe"\nfrom = "a"\n')
    assert "two views have one name" in problem


def test_every_setting_of_the_front_door_can_be_set() -> None:
    assert {one.mqtt_field for one in SETTINGS.values()} - {""} == {
        field.name for field in dataclasses.fields(MqttSettings)
    }
    assigned = ["mqtt_keep_alive_max=90s", "mqtt_publish_rate=2.5", "mqtt_queue_bytes=1MiB"]
    front = load(None, {}, {"id": "b1"}, assigned).mqtt
    assert front == MqttSettings(keep_alive_max_s=90, publish_rate=2.5, queue_bytes=1 << 20)
    assert isinstance(front.keep_alive_max_s, int)


def test_variables_of_others_are_left_alone_with_a_warning(tmp_path: Path) -> None:
    given = {
        "TIDINGS_SERVICE_HOST": "10.0.0.1",
        "TIDINGS_PORT_1883_TCP": "x",
        "TIDINGS_URL": "mqtt://here",
        "TIDINGS_PASSWORD": "sesame",
        "OTHER": "1",
        "TIDINGS_DATA": "/d",
    }
    assert [warning.partition(" ")[0] for warning in loaded(tmp_path, **given).warnings] == [
        "TIDINGS_PORT_1883_TCP",
        "TIDINGS_SERVICE_HOST",
    ]


@pytest.mark.parametrize(
    ("data", "records", "folder"),
    [
        ("", "", None),
        ("/d", "", "/d/records"),
        ("/d", "/r", "/r"),
        ("", "/r", "/r"),
        ("", "r", "r"),
        ("/d", "off", None),
    ],
)
def test_records_go_where_they_are_told(data: str, records: str, folder: str | None) -> None:
    configuration = load(None, {"TIDINGS_ID": "b1", "TIDINGS_DATA": data, "TIDINGS_RECORDS": records})
    assert configuration.records == (None if folder is None else Path(folder).absolute())


def test_relative_paths_of_variables_are_from_where_the_command_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    configuration = load(written(tmp_path / "elsewhere", 'id = "b1"\n'), {"TIDINGS_DATA": "here"})
    assert configuration["data"] == tmp_path / "here"


@pytest.mark.parametrize("text", ["127.0.0.1:1883", "[::1]:0", "broker-1.example:65535"])
def test_addresses_are_written_as_they_are_read(text: str) -> None:
    assert address_text(read_address(text)) == text


@pytest.mark.parametrize(
    ("text", "size"), [("4MiB", 4 << 20), ("1.5KiB", 1536), ("1GB", 10**9), ("512B", 512), ("3 kB", 3000)]
)
def test_sizes_have_units(text: str, size: int) -> None:
    assert read_size(text) == size
    assert read_size(size_text(size)) == size


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("h", False),
    ],
)
def test_loopback_is_told_from_the_rest(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


def test_the_page_is_the_table(root: Path) -> None:
    page = (root / "docs" / "configuration.md").read_text(encoding="utf-8")
    _, mark, made = page.partition("a test compares them. -->\n\n")
    assert mark, "the page has the mark behind which it is made"
    assert made == markdown(), "print(tidings.service.config.markdown()) behind the mark"


def test_no_setting_has_two_rows() -> None:
    assert len(SETTINGS) == sum(len(rows) for rows in TABLE.values())
