"""What the installed command `tidings` runs first: it looks whether `import tidings` finds our package.

A folder or file of others by that name hides ours if it comes first on the path, and any import of ours then
fails with a traceback that names neither. This module has a name that only we use, and it imports nothing of
Tidings before it has looked. The rest of the check is in `tidings.installation`.
"""

from __future__ import annotations

import sys
from importlib import util
from pathlib import Path


def main() -> None:
    """Run the command, or say what hides it."""
    ours = Path(__file__).parent.with_name("tidings") / "__init__.py"
    spec = util.find_spec("tidings")
    if spec is None or spec.origin != str(ours):
        found = "nothing" if spec is None else spec.origin
        print(
            f"tidings: `import tidings` finds {found}, and not {ours}. Rename or remove it, or take its "
            "folder off PYTHONPATH",
            file=sys.stderr,
        )
        sys.exit(2)
    from tidings.cli import main as command

    command()
