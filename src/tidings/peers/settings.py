"""What can be set about a peer, with the defaults and their reasons.

The switches at the end choose between the algorithm as printed and its repairs; docs/design/0034-peers.md has
what each one does to the result. `PRINTED` is the printed form as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal


@dataclass(frozen=True, slots=True)
class PeerSettings:
    """Of one peer. Times are in cycles of its timer."""

    cycle_s: float = 1.0
    """How often connections are looked after, the printed `while true`."""

    metric: Literal["hops", "ms"] = "hops"
    """What bounds and delays are: links, or milliseconds of measured links. The same at all peers."""

    out_degree: int = 10
    """Children at most, m. The paper's log2(n) for its 1,024 peers."""

    view: int = 51
    """Peers that are known at most: 5% of the paper's 1,024."""

    shuffle: int = 0
    """Profiles in one message of gossip; 0 for a fifth of the view, at least 8."""

    publishers_max: int = 64
    """Publishers that are known at most."""

    stale_after: int = 12
    """A profile that nobody has heard anew for so long is forgotten. Gossip renews one every ten cycles or
    so; under churn 40 left views full of the dead (docs/design/0034-peers.md has the figures)."""

    silent_after: int = 3
    """A parent or a child that says nothing for so long is taken for gone."""

    answer_within: int = 2
    """A request that has no answer by then is given up, and the peer forgotten until it is heard of anew."""

    requests: int = 8
    """Requests that may be without an answer at a time, each for another part of the subscription."""

    retry_after: int = 2
    """How long a parent that said no is left in peace; doubles each time."""

    retry_max: int = 16
    """The longest such rest."""

    patience: int = 3
    """How long a peer looks for a parent before its children look for themselves. The first hint is followed
    after one cycle; three allow for two that lead nowhere."""

    coarsen_after: int = 3
    """Cycles without cover before a subscription is made one step coarser (TimeOut of Algorithm 2)."""

    accuracy: bool = True
    """Whether subscriptions are made coarser and finer at all (Algorithm 2)."""

    rates: Literal["measured", "volume"] = "measured"
    """How the events of a part of the space are estimated: from measurements, or as its share of the
    volume."""

    window: int = 4
    """Cycles over which events are counted for rates, waste and bandwidth."""

    slack: float = 0.1
    """By how much, as a share of it, a budget may be exceeded before that is a violation; chance is added."""

    points: int = 256
    """Latest events of which the place is remembered, for the rates of finer parts."""

    seen: int = 8192
    """Latest events of which the identity is remembered, so that each is delivered once."""

    remembered: int = 1024
    """Peers of which is remembered what they asked for last, that they said no, did not answer or were left,
    each by itself, and expressions that were too coarse: the latest."""

    name_max: int = 255
    """Characters of a peer's name."""

    dz_max: int = 512
    """Expressions in one set that are accepted from others."""

    dz_depth_max: int = 512
    """Bits of one expression that are accepted from others."""

    # Repairs; False is as printed.

    requester_compared: bool = True
    """Line 8: the bound of who asks must be looser than ours. As printed, the handler calls what the message
    brings by the other's name, and accepts those that are tighter."""

    cover_checked: bool = True
    """Line 8: a parent also looks whether it still subscribes to what is asked for."""

    evicted_removed: bool = True
    """Lines 12-15: who is disconnected gives up the place."""

    disconnect_frees: bool = True
    """Line 30: a parent that is told DISCONNECT has a place more. As printed nobody receives it."""

    hint_checked: bool = True
    """Lines 13 and 19: a hint covers what was asked and is tighter than who asked."""

    publishers_all: bool = True
    """Line 3: without a subscriber as parent, all relevant publishers are needed; else any one will do."""

    fed_known: bool = True
    """Whether it matters in decisions that a parent gets events itself. It is always told, and measured."""

    # Ours.

    sibling_first: bool = True
    """Whether children are evicted first whom another child of the same parent can serve."""

    repeated_next: bool = True
    """Whether, if there are none, children are evicted next all of whose events go to another child as
    well."""

    hints_at_once: bool = True
    """Whether who is sent away or refused asks the one it is told to ask at once, and not in its next cycle:
    all below it get nothing meanwhile."""

    def shuffled(self) -> int:
        """Profiles in one message of gossip."""
        return self.shuffle or max(8, self.view // 5)


DEFAULT = PeerSettings()
"""As shipped: all repairs, and ours."""

REPAIRED = replace(DEFAULT, sibling_first=False, repeated_next=False, hints_at_once=False)
"""The published algorithm, repaired, with knowledge of who is fed."""

PRINTED = replace(
    REPAIRED,
    evicted_removed=False,
    disconnect_frees=False,
    hint_checked=False,
    cover_checked=False,
    fed_known=False,
)
"""The published algorithm as far as it can be run: with the text's reading of line 8 and of "covered"."""
