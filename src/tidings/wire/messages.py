"""All messages between brokers: what a frame may carry."""

from __future__ import annotations

from tidings.overlay.gather.messages import (
    Carry,
    HandedOver,
    HandOver,
    Mirror,
    Mirrored,
    Seated,
    Survey,
    Taken,
)
from tidings.overlay.links.messages import Bye, Greet, Refuse, Welcome
from tidings.overlay.publishing.messages import Done, Forget, Keep, Kept, Publish
from tidings.overlay.routing.messages import (
    Catalogue,
    Enter,
    Installed,
    Subscribe,
    Table,
    Unsubscribe,
)
from tidings.overlay.trees.messages import Distance, Grow, Join, Regrow, Roll, Seek
from tidings.overlay.versions.messages import Ask, Close, Follow, Snapshot

AnyMessage = (
    Greet
    | Welcome
    | Refuse
    | Bye
    | Distance
    | Seek
    | Grow
    | Join
    | Regrow
    | Roll
    | Table
    | Subscribe
    | Unsubscribe
    | Installed
    | Publish
    | Done
    | Keep
    | Kept
    | Forget
    | Survey
    | Carry
    | Taken
    | Seated
    | Mirror
    | Mirrored
    | HandOver
    | HandedOver
    | Close
    | Follow
    | Ask
    | Snapshot
    | Catalogue
    | Enter
)
"""For decoders."""
