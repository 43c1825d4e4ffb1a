"""Small networks as texts: what is done to them, and below `----` what is said because of it.

    network a-b-c
    subscribe c s1 "price > 10"
    settle
    ----
    c>b Change c/1 +1 # "price > 10"
    b>a Change c/1 +1 # "price > 10"
    c: s1 granted

A file is a list of such blocks with blank lines between them; lines that begin with `#` are comments. `play`
runs a text and answers it with the lines that really came, so that a test compares two texts and an update is
writing the answer back. docs/simulation.md lists the commands.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import msgspec

from tests.overlay.offers import Given, given
from tidings.errors import InputError
from tidings.language import durations
from tidings.language.regions import Unknown
from tidings.language.subscriptions import Subscription
from tidings.language.topics import OPTIONS
from tidings.overlay.broker import Broker
from tidings.overlay.events import (
    Accept,
    Decline,
    Deliver,
    Deny,
    Effect,
    Enlist,
    EntryOffered,
    Event,
    Grant,
    Log,
    Reject,
    Send,
    Stop,
)
from tidings.overlay.frames import Message
from tidings.overlay.gather.messages import Carry, HandOver, Seated
from tidings.overlay.links import links
from tidings.overlay.links.messages import Bye, Greet, Refuse
from tidings.overlay.publishing.batches import batch_of, unpacked
from tidings.overlay.publishing.messages import Publish
from tidings.overlay.routing import changes
from tidings.overlay.routing.interest import Interest
from tidings.overlay.routing.messages import FILTER, Change, Confirm, Enter, Fetch, Item, Sets
from tidings.overlay.settings import Settings
from tidings.overlay.trees.messages import Roll
from tidings.overlay.trees.trees import NO_EPOCH
from tidings.overlay.versions.messages import Ask, Snapshot
from tidings.planning import topologies
from tidings.records.record import Kind, Record
from tidings.sim.brokers.client import Client
from tidings.sim.node import MachineMaker, Node
from tidings.sim.world import DEFAULTS, World

RULE = "----"

UNTIL_S = 60.0
"""How long it is waited for a line."""

GROUPS: dict[str, tuple[str, ...]] = {
    "subscriptions": ("Change",),
    "publications": ("Publish",),
    "clients": ("Grant", "Deny", "Deliver", "Reject"),
    "refusals": ("Refuse", "Bye", "Stop"),
    "sets": ("Sets", "Fetch"),
    "trees": ("Distance", "Seek", "Grow", "Join", "Regrow"),
    "rolls": ("Roll",),
    "confirmations": ("Confirm", "Done", "Accept"),
    "copies": ("Keep", "Kept", "Forget"),
    "greetings": ("Greet", "Welcome"),
    "links": ("link up", "link down"),
    "catalogue": ("Enter", "Enlist", "Decline"),
    "reports": ("Carry",),
    "gathering": ("opened", "merged", "redundant", "refused", "told", "closed", "seated"),
    "seats": ("Seated", "HandOver"),
    "surveys": ("Survey",),
    "mirrors": ("Mirror", "Mirrored", "HandedOver", "Taken"),
    "following": ("Close", "Follow", "Unfollow", "Ask", "Snapshot"),
    "logs": ("Log",),
}
"""What can be shown and hidden, by a word for several."""

SHOWN_FIRST = (
    "subscriptions",
    "publications",
    "clients",
    "refusals",
    "catalogue",
    "reports",
    "gathering",
)


@dataclass(slots=True)
class Block:
    """Some commands and what came of them."""

    commands: list[str]
    """As written, with comments."""

    expected: list[str]


def parse(text: str) -> list[Block]:
    """The blocks of a transcript."""
    blocks = []
    for part in text.strip("\n").split("\n\n"):
        lines = part.strip("\n").split("\n")
        at = lines.index(RULE) if RULE in lines else len(lines)
        blocks.append(Block(lines[:at], lines[at + 1 :]))
    return blocks


def render(blocks: Sequence[Block]) -> str:
    """A transcript as a text."""
    return "\n\n".join("\n".join([*block.commands, RULE, *block.expected]) for block in blocks) + "\n"


def play(text: str, machine: MachineMaker | None = None) -> str:
    """Run the commands of a transcript; the same text with the lines that came."""
    player = Player(machine)
    with player.patches:
        return render([Block(block.commands, list(player.run(block.commands))) for block in parse(text)])


class Player:
    """Carries out commands, and writes down what is said."""

    def __init__(self, machine: MachineMaker | None = None) -> None:
        self._machine = machine
        self._world: World | None = None
        self._lines: list[str] = []
        self._shown = {name for group in SHOWN_FIRST for name in GROUPS[group]}
        self._settings: dict[str, Settings] = {}
        self._speak: dict[str, int] = {}
        """By id: the newest protocol version of brokers of older releases."""
        self._ids: dict[str, str] = {}
        self._clients: dict[str, Client] = {}
        self._cut: list[tuple[str, str]] = []
        self._awaited = ""
        """How the line begins that it is waited for."""
        self.patches = ExitStack()
        """What is other than as shipped while a transcript is played."""

    def run(self, commands: Sequence[str]) -> Iterator[str]:
        """Carry out the commands of a block; what came of them."""
        for command in commands:
            words = [] if command.startswith("#") else shlex.split(command)
            if words:
                method: Callable[[list[str]], None] | None = getattr(self, f"_do_{words[0]}", None)
                if method is None:
                    known = sorted(name[4:] for name in dir(self) if name.startswith("_do_"))
                    raise InputError(f"{command!r}: no such command; there are {', '.join(known)}")
                method(words[1:])
        lines, self._lines = self._lines, []
        yield from lines

    @property
    def world(self) -> World:
        """What the commands are about."""
        assert self._world is not None, "a transcript begins with 'network'"
        return self._world

    # The network.

    def _do_broker(self, words: list[str]) -> None:
        """Say something about one broker before the network begins."""
        name, options = words[0], _options(words[1:])
        self._ids[name] = options.pop("id", name)
        if "speaks" in options:
            self._speak[self._ids[name]] = int(options.pop("speaks"))
        self._settings[name] = _settings(DEFAULTS, options)

    def _do_network(self, words: list[str]) -> None:
        """Start brokers: chains such as a-b-c, and settings for all of them."""
        options = _options([word for word in words if "=" in word])
        delay_s = durations.parse(options.pop("delay", "1ms")) / 1e6
        away = options.pop("down", "")
        pairs, alone = [], []
        for word in words:
            if "=" not in word:
                chain = word.split("-")
                pairs += list(pairwise(chain))
                alone += chain
        topology = topologies.from_links(pairs, alone).with_delays(topologies.constant_delay(delay_s))
        base = _settings(DEFAULTS, options)
        own = {
            name: _settings(base, _differences(self._settings[name])) if name in self._settings else base
            for name in topology.ids
        }
        self._world = World(
            topology,
            0,
            machine=self._machine or self._broker,
            settings=own,
            ids=self._ids,
            sync_s=0.0,
            record=self._on_record,
            watch=self._watch,
        )
        down = away.split(",") if away else []
        self._world.start([name for name in topology.ids if name not in down])
        self._world.settle()

    def _broker(self, id: str, **given: Any) -> Broker:  # noqa: A002  it is the broker's parameter
        newest = self._speak.get(id)
        return Broker(id, **given) if newest is None else Older(id, newest, **given)

    def _do_settle(self, words: list[str]) -> None:
        """Let time pass until only heartbeats are left."""
        assert not words, "settle takes nothing"
        if not self.world.settle():
            self._lines.append("still talking")

    def _do_wait(self, words: list[str]) -> None:
        """Let some time pass."""
        self.world.run(durations.parse(words[0]) / 1e6)

    def _do_until(self, words: list[str]) -> None:
        """`until c: s1 granted`: let time pass until a line is said that begins so, shown or not."""
        agenda = self.world.agenda
        limit = agenda.now + UNTIL_S
        self._awaited = " ".join(words)
        while self._awaited:
            if agenda.next_time() > limit:
                self._lines.append(f"never said: {self._awaited}")
                self._awaited = ""
                return
            agenda.run(agenda.next_time())

    def _do_start(self, words: list[str]) -> None:
        for name in words:
            self.world.start_broker(name)

    def _do_crash(self, words: list[str]) -> None:
        """Kill a broker: `crash b [silently] [without disk]`. What is not synced is lost."""
        self.world.crash(words[0], disk="without" not in words, silent="silently" in words, kept=0)

    def _do_disk(self, words: list[str]) -> None:
        """`disk b 500ms`: how long a sync takes from now on."""
        self.world.hosts[words[0]].sync_s = durations.parse(words[1]) / 1e6

    def _do_stop(self, words: list[str]) -> None:
        """Ask a broker to stop: `stop b`, `stop b for good`."""
        self.world.stop(words[0], for_good=words[1:] == ["for", "good"])

    def _do_forget(self, words: list[str]) -> None:
        """`forget c at a`: tell a that c is gone for good."""
        name, _, at = words
        self.world.forget(name, at)

    def _do_cut(self, words: list[str]) -> None:
        """Let nothing pass over links; `silently` where nobody is told."""
        for word in words:
            if word != "silently":
                one, other = word.split("-")
                self.world.cut(one, other, silent="silently" in words)
                self._cut.append((one, other))

    def _do_link(self, words: list[str]) -> None:
        """`link a-b [delay=300ms] [bytes_per_s=640]`: what a link is like from now on, both ways."""
        one, other = words[0].split("-")
        options = _options(words[1:])
        for wire in (self.world.wires[one, other], self.world.wires[other, one]):
            if "delay" in options:
                wire.delay_s = durations.parse(options["delay"]) / 1e6
            if "bytes_per_s" in options:
                wire.bytes_per_s = float(options["bytes_per_s"])
                wire.settle_plain()

    def _do_parts(self, words: list[str]) -> None:
        """`parts 1`: how many items of a set go into one message; each message has a frame of its own."""
        self.patches.enter_context(patch.object(changes, "PART_ITEMS", int(words[0])))
        self.patches.enter_context(patch.object(links, "FRAME_WEIGHT", 1))

    def _do_mend(self, words: list[str]) -> None:
        for word in words:
            one, other = word.split("-")
            self.world.mend(one, other)
            self._cut.remove((one, other))

    def _do_break(self, words: list[str]) -> None:
        """Break connections that may be made again at once."""
        for word in words:
            self.world.break_connection(*word.split("-"))

    def _do_partition(self, words: list[str]) -> None:
        """Cut some brokers off from the others."""
        for link in self.world.topology.links:
            if (link.one in words) is not (link.other in words):
                self.world.cut(link.one, link.other, silent=False)
                self._cut.append((link.one, link.other))

    def _do_heal(self, words: list[str]) -> None:
        """Mend all that is cut."""
        assert not words, "heal takes nothing"
        for one, other in self._cut:
            self.world.mend(one, other)
        self._cut.clear()

    # Clients.

    def _client(self, broker: str, session: str, durable: bool = False) -> Client:
        if session not in self._clients:
            self._clients[session] = self.world.client(broker, session, durable=durable)
        client = self._clients[session]
        assert client.host.address == broker, f"{session} is a client of {client.host.address}"
        return client

    def _do_subscribe(self, words: list[str]) -> None:
        """`subscribe c s1 [TOPIC FILTER] ["WHERE"] [qos=1] [unknown=assume] [every=5s] [durable]`; s1/x."""
        (session, name), rest = _named(words[1]), words[2:]
        durable = "durable" in rest
        options = _options([word for word in rest if _is_option(word)])
        topic_filter, where = _filter([word for word in rest if word != "durable" and not _is_option(word)])
        self._client(words[0], session, durable).subscribe(
            name,
            Subscription(
                topic_filter,
                where,
                Unknown(options.get("unknown", "wait")),
                int(options.get("qos", "1")),
                durations.parse(options.get("every", "0s")),
            ),
        )

    def _do_unsubscribe(self, words: list[str]) -> None:
        session, name = _named(words[0])
        self._clients[session].unsubscribe(name)

    def _do_publish(self, words: list[str]) -> None:
        """`publish a TOPIC PAYLOAD [qos=1]`."""
        options = _options([word for word in words[3:] if _is_option(word)])
        publisher = self._client(words[0], f"publisher-{words[0]}")
        offer = publisher.publish(words[1], words[2].encode(), int(options.get("qos", "1")))
        if offer is None:
            self._lines.append(f"{words[0]}: is down")

    def _do_declare(self, words: list[str]) -> None:
        """`declare BROKER NAME [force] [OPTION=VALUE…]`; fields as x=int, y=string, z=int/max."""
        broker, name, *rest = words
        options = _options([word for word in rest if word != "force"])
        fields = {key: options.pop(key) for key in list(options) if key not in OPTIONS}
        mapping = {"name": name, "kind": "gathered" if "key" in options else "plain"} | options
        lines = [f"{key} = {_toml(key, value)}" for key, value in mapping.items()]
        lines += ["[fields]"] * bool(fields)
        for key, written in fields.items():
            kind, _, conflict = written.partition("/")
            lines.append(f"{key}.type = '{kind}'")
            lines += [f"{key}.conflict = '{conflict}'"] * bool(conflict)
        self._enter(broker, name, "\n".join(lines), force="force" in rest)

    def _do_undeclare(self, words: list[str]) -> None:
        """`undeclare BROKER NAME [force]`."""
        self._enter(words[0], words[1], "", force="force" in words[2:])

    def _enter(self, broker: str, name: str, text: str, *, force: bool) -> None:
        host = self.world.hosts[broker]
        self.world.tell(host, EntryOffered("declarer", 0, "topic", name, text, force))

    def _do_detach(self, words: list[str]) -> None:
        self._clients[words[0]].detach()

    def _do_attach(self, words: list[str]) -> None:
        self._clients[words[0]].attach()

    def _do_leave(self, words: list[str]) -> None:
        self._clients[words[0]].leave()

    # What is seen.

    def _do_show(self, words: list[str]) -> None:
        """Show more of what is said, by group or kind."""
        self._shown |= {name for word in words for name in GROUPS.get(word, (word,))}

    def _do_hide(self, words: list[str]) -> None:
        self._shown -= {name for word in words for name in GROUPS.get(word, (word,))}

    def _do_trees(self, words: list[str]) -> None:
        """Say for every tree who is whose child."""
        assert not words, "trees takes nothing"
        parents: dict[str, list[str]] = {}
        for status in self.world.statuses().values():
            for tree in status.trees:
                if tree.epoch == NO_EPOCH:
                    continue
                above = "the root" if tree.parent is None else tree.parent
                parents.setdefault(tree.root, []).append(f"{status.broker} below {above}")
        self._lines += [f"tree of {root}: {', '.join(each)}" for root, each in sorted(parents.items())]

    def _do_status(self, words: list[str]) -> None:
        """Say what brokers hold for whom."""
        for name in words:
            status = self.world.statuses()[name]
            self._lines.append(
                f"{name}: holds {status.held} publications; absent: {' '.join(status.absent) or 'nobody'}"
            )

    def _do_seats(self, words: list[str]) -> None:
        """`seats NAME`: say who has the seats of a gathered topic, and who says otherwise."""
        said: dict[str, list[str]] = {}
        for name, host in self.world.hosts.items():
            if isinstance(host.broker, Broker):
                for one in host.broker.gathered(words[0]):
                    deputy = f", deputy {one.deputy}" if one.deputy else ""
                    place = one.place.replace("\t", " part ")
                    text = f"{place} is gathered at {one.seat or 'no broker'}{deputy}, term {one.term}"
                    said.setdefault(text, []).append(name)
        self._lines += [f"{text}, say {' '.join(names)}" for text, names in said.items()]

    def _watch(self, host: Node, event: Event, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                end = host.ends.get(effect.connection)
                to = "?" if end is None else end.other.host.address
                for message in effect.frame.messages:
                    line = f"{host.address}>{to} {message_text(message)}{_receivers(host, message)}"
                    # Whoever is refused comes again for ever; once in a block is enough.
                    if not isinstance(message, Refuse) or line not in self._lines:
                        self._say(type(message).__name__, line)
            elif said := effect_text(effect):
                self._say(type(effect).__name__, f"{host.address}: {said}")

    def _on_record(self, record: Record) -> None:
        kind = record.kind.value
        if record.kind is Kind.SUPPRESSED and record.report is not None:
            kind = (record.reason or "").partition(":")[0]
        if said := record_text(record):
            self._say(kind, f"{record.broker}: {said}")

    def _say(self, kind: str, line: str) -> None:
        """Write a line down, if those of its kind are shown."""
        if kind in self._shown:
            self._lines.append(line)
        if line.startswith(self._awaited):
            self._awaited = ""


class Older(Broker):
    """A broker of an older release, as far as others can tell from its greeting."""

    def __init__(self, id: str, newest: int, **given: Any) -> None:  # noqa: A002
        super().__init__(id, **given)
        self._newest = newest

    def handle(self, event: Event, now: float) -> list[Effect]:
        return [self._as_older(effect) for effect in super().handle(event, now)]

    def _as_older(self, effect: Effect) -> Effect:
        if not isinstance(effect, Send):
            return effect
        said = [
            msgspec.structs.replace(message, versions=(1, self._newest))
            if isinstance(message, Greet)
            else message
            for message in effect.frame.messages
        ]
        frame = msgspec.structs.replace(effect.frame, messages=tuple(said))
        return msgspec.structs.replace(effect, frame=frame)


def message_text(message: Message) -> str:
    """What a broker says to another, in one line."""
    name = type(message).__name__
    if isinstance(message, Change):
        said = [f"+{item.key} {_item(item)}" for item in message.added]
        said += [f"-{key}" for key in message.removed]
        version = f"{message.home}/{message.boot}.{message.number}"
        whole = " whole:" if message.whole else ""
        return f"{name} {version}{whole} {', '.join(said)}{' …' if message.more else ''}".rstrip()
    if isinstance(message, Sets):
        said = [
            f"{it.home}/{it.boot}.{it.number}" + (" (absent)" if it.absent_s >= 0 else "")
            for it in message.homes
        ]
        said += [f"{home} is {'gone' if count % 2 else 'back'}" for home, _, count in message.gone]
        return f"{name} {', '.join(said)}"
    if isinstance(message, Fetch):
        return f"{name} {message.home} behind {message.boot}.{message.number}"
    if isinstance(message, Confirm):
        said = [f"{home}/{boot}.{number}" for home, boot, number in message.homes]
        said += ["but for", *message.late] if message.late else []
        return f"{name} {' '.join(said)}{_tree(message.root)}"
    if isinstance(message, Roll):
        said = [f"{member}/{boot}.{number}" for member, boot, _, number in message.members]
        return f"{name} {' '.join(said)}{_tree(message.root)}"
    if isinstance(message, Publish):
        said = [f"{it.topic} {it.payload.decode()}" for it in batch_of(message)]
        return f"{name} {', '.join(said)}{_tree(message.root)}"
    if isinstance(message, Carry):
        report = message.report
        return f"{name} {report.topic} {report.payload.decode()} to {message.holder.seat}"
    if isinstance(message, Seated):
        holder = message.holder
        deputy = f", deputy {holder.deputy}" if holder.deputy else ""
        return f"{name} {message.place} at {holder.seat}{deputy}, term {holder.term}"
    if isinstance(message, Ask):
        version = f"{message.home}/{message.version[0]}.{message.version[1]}"
        return f"{name} at {message.place} for {version}: {subscription_text(message.subscription)}"
    if isinstance(message, Snapshot):
        known = [it.told for it in message.publications if it.told is not None]
        said = [f"version {it.version} of {it.event}" for it in known] or ["nothing"]
        more = " …" if message.more else ""
        return f"{name} of {message.place} for {message.home}: {', '.join(said)}{more}"
    if isinstance(message, HandOver):
        return f"{name} {message.place} to {message.to}: {len(message.entries)} events, term {message.term}"
    if isinstance(message, Refuse):
        return f"{name}: {message.reason}"
    if isinstance(message, Enter):
        entry = message.entry
        told = f"{name} {entry.kind} {entry.name} version {entry.version} of {entry.broker or 'a file'}"
        return told if entry.text else f"{told}, removed"
    if isinstance(message, Bye):
        return f"{name} for good" if message.for_good else name
    values = [
        f"{field.name}={_value(getattr(message, field.name))}"
        for field in msgspec.structs.fields(type(message))
        if field.name not in ("nonce", "proof")
    ]
    return " ".join([name, *values])


def record_text(record: Record) -> str:
    """What a broker writes down of links and gathered events, in one line; empty for anything else."""
    kind, reason = record.kind, f" ({record.reason})" if record.reason else ""
    if kind in (Kind.LINK_UP, Kind.LINK_DOWN):
        state = "up" if kind is Kind.LINK_UP else "down"
        return f"link to {record.link} {state}{reason}"
    if kind is Kind.OPENED:
        return f"report {record.report} opens an event"
    if kind is Kind.MERGED:
        return f"report {record.report} merges with {record.event}{reason}"
    if kind is Kind.SUPPRESSED:
        return f"report {record.report} is {record.reason}"
    if kind is Kind.TOLD:
        return f"tells version {record.version} of {record.event}{reason}"
    if kind is Kind.CLOSED:
        return f"closes {record.event}{reason}"
    if kind is Kind.SEATED and record.link != record.broker:
        return f"leaves the seat of {record.topic} to {record.link}"
    if kind is Kind.SEATED and record.reason == "deputy":
        return f"has a deputy for the seat of {record.topic}, {' '.join(record.receivers)}"
    if kind is Kind.SEATED:
        return f"has the seat of {record.topic}{reason}"
    return ""


def _given_text(it: Given) -> str:
    whose = " ".join(_name(*pair) for pair in it.subscriptions)
    publication, told = it.publication, it.publication.told
    text = f"{whose} gets {publication.topic} {publication.payload.decode()}".rstrip()
    if told is None:
        return text
    into = f" {told.into}" if told.into else ""
    return f"{text} ({told.state}{into}: version {told.version} of {told.event})"


def effect_text(effect: Effect) -> str:
    """What a broker wants done for its clients, in one line; empty for anything else."""
    if isinstance(effect, Grant):
        return f"{_name(effect.session, effect.name)} granted" + (
            f" ({effect.reason})" if effect.reason else ""
        )
    if isinstance(effect, Deny):
        return f"{_name(effect.session, effect.name)} denied: {effect.reason}"
    if isinstance(effect, Deliver):
        return "; ".join(_given_text(it) for it in given([effect]))
    if isinstance(effect, Accept):
        return f"{effect.session} has {' '.join(map(str, effect.tokens))} accepted"
    if isinstance(effect, Reject):
        return f"{effect.session} has {effect.token} rejected: {effect.reason}"
    if isinstance(effect, Enlist):
        return "entered"
    if isinstance(effect, Decline):
        return f"declined: {effect.reason.replace(chr(10), ' ')}"
    if isinstance(effect, Stop):
        return f"stops: {effect.reason}" if effect.reason else "stops"
    if isinstance(effect, Log):
        return f"{effect.level}: {effect.text}"
    return ""


def subscription_text(subscription: Subscription) -> str:
    """A subscription as in the command, without what is at its default there."""
    extras = []
    if subscription.unknown is not Unknown.WAIT:
        extras.append(f"unknown={subscription.unknown.value}")
    if subscription.qos != 1:
        extras.append(f"qos={subscription.qos}")
    if subscription.every_us:
        extras.append(f"every={durations.text(subscription.every_us)}")
    where = f' "{subscription.where}"' if subscription.where else ""
    return " ".join([f"{subscription.topic_filter}{where}", *extras])


def _tree(root: str) -> str:
    return f" on {root}"


def _item(item: Item) -> str:
    """An item of a set."""
    if item.kind != FILTER:
        return f"(kind {item.kind})"
    return Interest(item.value).text.replace(" qos=1", "").replace("everything", "(everything)")


def _receivers(host: Node, message: Message) -> str:
    """The brokers that a publication is for."""
    if not isinstance(message, Publish) or not isinstance(host.broker, Broker):
        return ""
    names = host.broker.named(message.root, message.epoch, unpacked(message.to[0]))
    return f" to {' '.join(names)}"


def _value(value: object) -> str:
    if isinstance(value, tuple):
        return "[" + " ".join(_value(one) for one in value) + "]"
    return str(value)


def _named(word: str) -> tuple[str, str]:
    """A session and the name of a subscription: `s1` or `s1/x`."""
    session, _, name = word.partition("/")
    return session, name or "1"


def _name(session: str, name: str) -> str:
    return session if name == "1" else f"{session}/{name}"


def _is_option(word: str) -> bool:
    return word.startswith(("qos=", "unknown=", "every="))


def _toml(option: str, written: str) -> str:
    """The value of an option of a declaration, as a file would have it."""
    if option == "key":
        return "[" + ", ".join(f"'{item}'" for item in written.split(",")) + "]"
    return written if written.isdigit() else f"'{written}'"


def _options(words: Sequence[str]) -> dict[str, str]:
    return dict(word.split("=", 1) for word in words)


def _filter(words: Sequence[str]) -> tuple[str, str]:
    """A topic filter, `#` if there is none, and a content filter: the one with a blank in it."""
    topics = [word for word in words if " " not in word]
    wheres = [word for word in words if " " in word]
    return (topics[0] if topics else "#"), (wheres[0] if wheres else "")


def _settings(base: Settings, options: dict[str, str]) -> Settings:
    """Settings with some replaced, by their names."""
    kinds = {field.name: type(getattr(base, field.name)) for field in fields(Settings)}
    changes: dict[str, object] = {}
    for name, text in options.items():
        kind = kinds[name]
        if kind is bool:
            changes[name] = text in ("true", "yes")
        else:
            changes[name] = kind(text)
    return replace(base, **changes)  # type: ignore[arg-type]


def _differences(settings: Settings) -> dict[str, str]:
    """What is not at its default, as options."""
    found = {}
    for field in fields(Settings):
        value = getattr(settings, field.name)
        if value != getattr(DEFAULTS, field.name):
            found[field.name] = ("true" if value else "false") if isinstance(value, bool) else str(value)
    return found
