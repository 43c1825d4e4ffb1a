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
    Change,
    Confirm,
    Enter,
    Fetch,
    Sets,
)
from tidings.overlay.trees.messages import Distance, Grow, Join, Regrow, Roll, Seek
from tidings.overlay.versions.messages import Ask, Close, Follow, Snapshot, Unfollow

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
    | Sets
    | Fetch
    | Change
    | Confirm
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
    | Unfollow
    | Ask
    | Snapshot
    | Catalogue
    | Enter
)
"""For decoders."""
