"""Users and their passwords: one file, a line for each, and the check that takes time on purpose.

    ann:$scrypt$ln=15,r=8,p=1$<salt>$<hash>

Passwords are hashed with scrypt and are nowhere else. The file is its owner's alone, or it is refused. What a
user may do is not known here.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import hmac
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tidings.errors import InputError, SetupError
from tidings.language.faults import shown

LOG2_N = 15
"""32 MiB and about 80 ms for a check: a guess costs as much. OWASP's list of equal strengths has 2^15, r = 8
with p = 3; one in parallel is what a broker of small machines can bear when many connect."""

LOG2_N_MAX = 20
R = 8
P = 1
SALT_BYTES = 16
HASH_BYTES = 32
MEMORY_MAX = 1 << 30
"""Of one check; a file may not ask for more."""

NAME_CHARACTERS_MAX = 255
PASSWORD_BYTES_MAX = 65_535
"""What MQTT can carry."""

FILE_BYTES_MAX = 64 << 20

WRONG_MAX = 16_384
"""Wrong passwords that are remembered, the latest; about 2 MB."""

_HASH = re.compile(
    r"\$scrypt\$ln=([0-9]{1,2}),r=([0-9]{1,3}),p=([0-9]{1,3})\$([A-Za-z0-9+/]{4,128})\$([A-Za-z0-9+/]{4,128})"
)


@dataclass(frozen=True, slots=True)
class Hashed:
    """A password as it is kept."""

    log2_n: int
    r: int
    p: int
    salt: bytes
    hash: bytes

    @classmethod
    def of(cls, password: bytes) -> Hashed:
        """With a salt of its own."""
        salt = os.urandom(SALT_BYTES)
        return cls(LOG2_N, R, P, salt, _scrypt(password, salt, LOG2_N, R, P, HASH_BYTES))

    @classmethod
    def read(cls, text: str) -> Hashed:
        """ValueError if it is none, or would take too much to check."""
        parts = _HASH.fullmatch(text)
        if parts is None:
            raise ValueError("what follows the name is not a hash of `tidings user add`")
        log2_n, r, p = (int(part) for part in parts.groups()[:3])
        if not (
            1 <= log2_n <= LOG2_N_MAX and r and p and 128 * r * (2**log2_n + p) <= MEMORY_MAX and p <= 16
        ):
            raise ValueError(f"a check with ln={log2_n}, r={r}, p={p} would take too much")
        try:
            salt, hashed = (base64.b64decode(part + "=" * (-len(part) % 4)) for part in parts.groups()[3:])
        except binascii.Error as error:
            raise ValueError(f"the hash is not base64: {error}") from None
        return cls(log2_n, r, p, salt, hashed)

    def write(self) -> str:
        """The text that `read` reads."""
        salt, hashed = (base64.b64encode(part).decode().rstrip("=") for part in (self.salt, self.hash))
        return f"$scrypt$ln={self.log2_n},r={self.r},p={self.p}${salt}${hashed}"

    def fits(self, password: bytes) -> bool:
        """Whether this is the password. Takes its time; other threads go on meanwhile."""
        found = _scrypt(password, self.salt, self.log2_n, self.r, self.p, len(self.hash))
        return hmac.compare_digest(found, self.hash)


def _scrypt(password: bytes, salt: bytes, log2_n: int, r: int, p: int, length: int) -> bytes:
    memory = 128 * r * (2**log2_n + p + 2)
    return hashlib.scrypt(password, salt=salt, n=2**log2_n, r=r, p=p, maxmem=memory, dklen=length)


@dataclass(slots=True)
class Users:
    """The users of a broker. `check` is called on threads."""

    hashes: Mapping[str, Hashed]
    _key: bytes = field(default_factory=lambda: os.urandom(32))
    _known: dict[bytes, None] = field(default_factory=dict)
    _wrong: dict[bytes, None] = field(default_factory=dict)
    _nobody: Hashed = field(
        default_factory=lambda: Hashed(LOG2_N, R, P, bytes(SALT_BYTES), bytes(HASH_BYTES))
    )

    def check(self, name: str, password: bytes) -> bool:
        """Whether name and password fit. An unknown name takes as long as a wrong password."""
        if self.known(name, password):
            return True
        hashed = self.hashes.get(name)
        if hashed is None:
            self._nobody.fits(password)
            return False
        if hashed.fits(password):
            self._known[self._mark(name, password)] = None
            return True
        return False

    def known(self, name: str, password: bytes) -> bool:
        """Whether they have been found to fit before, which takes no time: after a restart of the network's
        gateway, ten thousand clients come back at once.
        """
        return self._mark(name, password) in self._known

    def wrong(self, name: str, password: bytes) -> bool:
        """Whether they have been found not to fit: a device that comes back with an old password, again and
        again, costs one check.
        """
        return self._mark(name, password) in self._wrong

    def remember_wrong(self, name: str, password: bytes) -> None:
        """What `check` has found; called on one thread."""
        self._wrong[self._mark(name, password)] = None
        if len(self._wrong) > WRONG_MAX:
            del self._wrong[next(iter(self._wrong))]

    def outdated(self, before: Users) -> frozenset[str]:
        """Those of before whose password holds no more: they were removed, or were given another one."""
        return frozenset(name for name, hashed in before.hashes.items() if self.hashes.get(name) != hashed)

    def _mark(self, name: str, password: bytes) -> bytes:
        # Keyed: memory holds nothing from which a password could be guessed faster than from the file.
        text = len(name.encode()).to_bytes(4) + name.encode() + password
        return hmac.digest(self._key, text, "sha256")


def read_users(path: Path) -> Users:
    """The users of a file. SetupError if it cannot be read or others can; InputError for what is in it."""
    return Users(_parse(_read(path), path))


def add_user(path: Path, name: str, password: bytes) -> bool:
    """Add a user, or change the password; the file is made if need be. Whether the user is new."""
    if fault := name_fault(name):
        raise InputError(fault)
    if not 0 < len(password) <= PASSWORD_BYTES_MAX:
        raise InputError(f"a password has 1 to {PASSWORD_BYTES_MAX} bytes")
    with _changing(path) as lines:
        kept = [line for line in lines if _name(line) != name]
        new = len(kept) == len(lines)
        lines[:] = [*kept, f"{name}:{Hashed.of(password).write()}"]
    return new


def remove_user(path: Path, name: str) -> None:
    """InputError if there is no such user."""
    with _changing(path) as lines:
        kept = [line for line in lines if _name(line) != name]
        if len(kept) == len(lines):
            raise InputError(f"there is no user {name!r} in {path}; `tidings user list` shows who there is")
        lines[:] = kept


def name_fault(name: str) -> str | None:
    """What is wrong with a user's name, or None."""
    if not 0 < len(name) <= NAME_CHARACTERS_MAX or not name.isprintable() or name != name.strip():
        return f"{shown(name)} is no name: 1 to {NAME_CHARACTERS_MAX} printable characters, no spaces around"
    if any(char in "/+#:" for char in name):
        # In rules, %u stands for the name as one level of a topic.
        return f"{shown(name)} is no name: it must not have '/', '+', '#' or ':'"
    return None


def _name(line: str) -> str | None:
    """Whose line it is; None for a comment or an empty one."""
    return None if not line.strip() or line.startswith("#") else line.rpartition(":")[0]


def _parse(text: str, path: Path) -> dict[str, Hashed]:
    found: dict[str, Hashed] = {}
    for number, line in enumerate(text.splitlines(), 1):
        name = _name(line)
        if name is None:
            continue
        if fault := name_fault(name):
            raise InputError(f"{path}:{number}: {fault}")
        if name in found:
            raise InputError(f"{path}:{number}: the user {name!r} is there twice; remove one line")
        try:
            found[name] = Hashed.read(line.rpartition(":")[2].strip())
        except ValueError as error:
            raise InputError(f"{path}:{number}: {error}; write it with `tidings user add {name}`") from None
    return found


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if stat.S_IMODE(mode) & 0o077:
                raise SetupError(
                    f"others on this machine may read or write {path}; make it yours alone: chmod 600 {path}"
                )
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise SetupError(
            f"the users file {path} cannot be read: {error.strerror}; `tidings user add NAME --file {path}`"
            " makes one"
        ) from None
    if len(data) > FILE_BYTES_MAX:
        raise SetupError(f"the users file {path} is larger than {FILE_BYTES_MAX} bytes, the limit")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise SetupError(f"the users file {path} is not UTF-8 text; name another") from None


@contextlib.contextmanager
def _changing(path: Path) -> Iterator[list[str]]:
    """The lines of the file, to be changed; afterwards the file is replaced as a whole, or not at all."""
    new = path.with_name(f".{path.name}.new")
    try:
        # Made anew or not at all: whoever else changes the file at this moment has made it.
        handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise SetupError(f"{path} is being changed by another; if it is not, remove {new}") from None
    except OSError as error:
        raise SetupError(
            f"{path} cannot be written: {error.strerror}; name a file in a folder of yours"
        ) from None
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            lines = _read(path).splitlines() if path.exists() else []
            _parse("\n".join(lines), path)
            yield lines
            file.writelines(f"{line}\n" for line in lines)
            file.flush()
            if path.exists():
                # Root may add a user to the file of a broker that runs as somebody else.
                owner = path.stat()
                if (owner.st_uid, owner.st_gid) != (os.geteuid(), os.getegid()):
                    os.fchown(file.fileno(), owner.st_uid, owner.st_gid)
            os.fsync(file.fileno())
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
