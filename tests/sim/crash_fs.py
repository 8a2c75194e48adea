"""CrashFS: a file system that dies at a chosen call and comes back with what a power failure may leave.

It works on a real directory through the posix file system, numbers every mutating call and keeps two models: what is
durable (content at the last sync of each file, names at the last sync of each directory) and what merely was done. At
the chosen call it raises `Crashed`, and so does every later call. `aftermath` then builds what a restart finds:
all that was durable, and of the rest what a seeded choice lets survive: for a file a prefix of its unsynced writes, the
last one perhaps torn, or now and then any of them, as a kernel writes pages back in any order while sizes follow the
journal; for a directory a prefix of its unsynced creations, renames and removals.

A name survives only as its directory's operations do, and content never runs ahead of the file's own writes; so a
rename may be durable while the renamed file's bytes are not, which is the trap that write-sync-rename avoids. A renamed
file may be found under both names; of a renamed directory that is never so: no journal tears it in two. A directory is
lost as a whole with its name; those of log directories themselves (`root` and what lay in it) are there already.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field

from storage.env.fs import Buffer, DirEntry
from storage.env.posix import PosixFile, PosixFileSystem

SECTOR_BYTES = 512


class Crashed(BaseException):
    """The power went off at this call; not an Exception, so that no handler of I/O errors catches it."""


@dataclass
class Inode:
    """One file: its durable content and the writes and truncations since."""

    durable: bytearray = field(default_factory=bytearray)
    pending: list[tuple[str, int, bytes]] = field(default_factory=list)


@dataclass
class Folder:
    """One directory: the names that are durable, those that hold now, and the changes in between.

    A change is a set of names with what they stand for afterwards, None for nothing; it is made whole or not at all.
    """

    durable: dict[str, Entry] = field(default_factory=dict)
    now: dict[str, Entry] = field(default_factory=dict)
    pending: list[dict[str, Entry | None]] = field(default_factory=list)

    def change(self, *changes: dict[str, Entry | None]) -> None:
        for one in changes:
            apply_names(self.now, one)
            self.pending.append(one)

    def settle(self) -> None:
        for one in self.pending:
            apply_names(self.durable, one)
        self.pending.clear()


Entry = Inode | Folder


class CrashFile:
    """A real file whose mutations are written down first."""

    def __init__(self, owner: CrashFS, file: PosixFile, inode: Inode) -> None:
        self._owner = owner
        self._file = file
        self._inode = inode
        self.path = file.path

    @property
    def fd(self) -> int:
        return self._file.fd

    def read_at(self, size: int, position: int) -> bytes:
        self._owner.ensure_alive()
        return self._file.read_at(size, position)

    def read_into(self, buffer: memoryview, position: int) -> int:
        self._owner.ensure_alive()
        return self._file.read_into(buffer, position)

    def write_at(self, data: Buffer, position: int) -> None:
        content = bytes(data)
        self._owner.step(lambda: self._inode.pending.append(("write", position, content)))
        self._file.write_at(content, position)

    def writev_at(self, buffers: Sequence[Buffer], position: int) -> None:
        self.write_at(b"".join(map(bytes, buffers)), position)

    def truncate(self, size: int) -> None:
        self._owner.step(lambda: self._inode.pending.append(("truncate", size, b"")))
        self._file.truncate(size)

    def reserve(self, size: int) -> None:
        self._owner.step(lambda: None)
        self._owner.reservations.append((self.path, size))

    def size(self) -> int:
        self._owner.ensure_alive()
        return self._file.size()

    def sync(self) -> None:
        self._owner.step(lambda: None)
        apply_changes(self._inode.durable, self._inode.pending)
        self._inode.pending.clear()

    def pin(self) -> None:
        self._file.pin()

    def unpin(self) -> None:
        self._file.unpin()

    def close(self) -> None:
        self._file.close()


class CrashDirectFile(CrashFile):
    """The same past the page cache: as durable as any unsynced write, but it must come in whole blocks."""

    def __init__(self, owner: CrashFS, file: PosixFile, inode: Inode, block_bytes: int) -> None:
        super().__init__(owner, file, inode)
        self.block_bytes = block_bytes

    def write_at(self, data: Buffer, position: int) -> None:
        assert position % self.block_bytes == len(data) % self.block_bytes == 0, (position, len(data))
        if data:
            super().write_at(data, position)


class CrashFS:
    """A FileSystem over `root` that crashes at mutating call number `crash_at` (0-based; None: never)."""

    def __init__(self, root: str, *, crash_at: int | None = None, direct_block_bytes: int | None = None) -> None:
        self._real = PosixFileSystem()
        self.root = root
        self.crash_at = crash_at
        self.direct_block_bytes = direct_block_bytes  # None: no file can be written past the page cache
        self.reservations: list[tuple[str, int]] = []
        self.calls = 0
        self.is_dead = False
        self._root = Folder()
        self._adopt(self._root, root)

    def _adopt(self, folder: Folder, path: str) -> None:
        """Take what lies in a directory as durable."""
        for entry in self._real.list_dir(path) if self._real.is_dir(path) else ():
            inside = os.path.join(path, entry.name)
            if entry.is_dir:
                found: Entry = Folder()
                self._adopt(found, inside)
            else:
                found = Inode(bytearray(self._real.read_file(inside)))
            folder.now[entry.name] = folder.durable[entry.name] = found

    def _find(self, path: str) -> Entry | None:
        found: Entry | None = self._root
        for name in self._names(path):
            found = found.now.get(name) if isinstance(found, Folder) else None
        return found

    def _names(self, path: str) -> list[str]:
        if path == self.root:
            return []
        root, relative = path[: len(self.root)], path[len(self.root) + 1 :]
        assert root == self.root and path[len(root)] == os.sep and os.pardir not in relative, path
        return relative.split(os.sep)

    def _folder(self, path: str) -> Folder:
        folder = self._find(path)
        if not isinstance(folder, Folder):
            raise FileNotFoundError(2, "No such directory", path)
        return folder

    def _file(self, path: str) -> Inode:
        inode = self._find(path)
        if not isinstance(inode, Inode):
            raise FileNotFoundError(2, "No such file", path)
        return inode

    def ensure_alive(self) -> None:
        if self.is_dead:
            raise Crashed

    def step(self, note) -> None:
        """Count a mutating call and note it; the chosen one dies, and may or may not have taken effect."""
        self.ensure_alive()
        if self.calls == self.crash_at:
            note()
            self.is_dead = True
            raise Crashed
        self.calls += 1
        note()

    def _change(self, path: str, entry: Entry | None) -> None:
        folder = self._folder(os.path.dirname(path))
        self.step(lambda: folder.change({os.path.basename(path): entry}))

    # --- the protocol ---

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> CrashFile:
        self.ensure_alive()
        if create and self._find(path) is None:
            self._change(path, Inode())
        return CrashFile(self, self._real.open(path, create=create, writable=writable), self._file(path))

    def open_direct(self, path: str) -> CrashDirectFile | None:
        self.ensure_alive()
        if self.direct_block_bytes is None:
            return None
        return CrashDirectFile(self, self._real.open(path), self._file(path), self.direct_block_bytes)

    def read_file(self, path: str) -> bytes:
        self.ensure_alive()
        return self._real.read_file(path)

    def write_file(self, path: str, data: bytes, *, sync: bool = True) -> None:
        file = self.open(path, create=True)
        file.truncate(0)
        file.write_at(data, 0)
        if sync:
            file.sync()
        file.close()

    def list_dir(self, path: str) -> list[DirEntry]:
        self.ensure_alive()
        return self._real.list_dir(path)

    def exists(self, path: str) -> bool:
        self.ensure_alive()
        return self._real.exists(path)

    def is_dir(self, path: str) -> bool:
        self.ensure_alive()
        return self._real.is_dir(path)

    def file_size(self, path: str) -> int:
        self.ensure_alive()
        return self._real.file_size(path)

    def mtime_ms(self, path: str) -> int:
        return self._real.mtime_ms(path)

    def set_mtime_ms(self, path: str, mtime_ms: int) -> None:
        self._real.set_mtime_ms(path, mtime_ms)

    def rename(self, source: str, target: str) -> None:
        self.ensure_alive()
        moved = self._find(source)
        if moved is None:
            raise FileNotFoundError(2, "No such file", source)
        folder = self._folder(os.path.dirname(source))
        assert os.path.dirname(target) == os.path.dirname(source), "renames into other directories are not simulated"
        new, old = os.path.basename(target), os.path.basename(source)
        if isinstance(moved, Folder):
            self.step(lambda: folder.change({new: moved, old: None}))
        else:
            self.step(lambda: folder.change({new: moved}, {old: None}))
        self._real.rename(source, target)

    def unlink(self, path: str) -> None:
        self.ensure_alive()
        if self._find(path) is not None:
            self._change(path, None)
        self._real.unlink(path)

    def make_dirs(self, path: str) -> None:
        self.ensure_alive()
        if self._find(path) is None:
            self.make_dirs(os.path.dirname(path))
            self._change(path, Folder())
        self._real.make_dirs(path)

    def remove_dir(self, path: str) -> None:
        self.ensure_alive()
        self._real.remove_dir(path)
        if self._find(path) is not None:
            self._change(path, None)

    def sync_dir(self, path: str) -> None:
        folder = self._folder(path)
        self.step(lambda: None)
        folder.settle()

    def drop_cached(self, path: str, position: int, size: int) -> None:
        self.ensure_alive()
        self._real.drop_cached(path, position, size)

    def lock(self, path: str):
        self.ensure_alive()
        return self._real.lock(path)

    def open_dir(self, path: str):
        self.ensure_alive()
        return self._real.open_dir(path)

    def space(self, path: str):
        self.ensure_alive()
        return self._real.space(path)

    def canonical(self, path: str) -> str:
        return self._real.canonical(path)

    # --- the aftermath ---

    def aftermath(self, target: str, seed: int) -> None:
        """Build in `target` what a restart after the crash finds; `seed` chooses what of the unsynced survives."""
        shutil.rmtree(target, ignore_errors=True)
        self._rebuild(self._root, target, random.Random(seed), {})

    def _rebuild(self, folder: Folder, target: str, chance: random.Random, contents: dict[int, bytes]) -> None:
        os.makedirs(target)
        names = dict(folder.durable)
        for change in folder.pending[: chance.randint(0, len(folder.pending))]:
            apply_names(names, change)
        for name, entry in names.items():
            path = os.path.join(target, name)
            if isinstance(entry, Folder):
                self._rebuild(entry, path, chance, contents)
                continue
            if id(entry) not in contents:
                contents[id(entry)] = survived(entry, chance)
            with open(path, "wb") as file:
                file.write(contents[id(entry)])


def apply_names(names: dict[str, Entry], change: dict[str, Entry | None]) -> None:
    """Make a change of names."""
    for name, entry in change.items():
        if entry is None:
            names.pop(name, None)
        else:
            names[name] = entry


def apply_changes(content: bytearray, changes: list[tuple[str, int, bytes]]) -> None:
    """Replay writes and truncations on a content."""
    for kind, position, data in changes:
        if kind == "size":  # at least so long
            content.extend(bytes(max(position - len(content), 0)))
            continue
        if kind == "truncate":
            if position <= len(content):
                del content[position:]
            else:
                content.extend(bytes(position - len(content)))
            continue
        if position > len(content):
            content.extend(bytes(position - len(content)))
        content[position : position + len(data)] = data


def survived(inode: Inode, chance: random.Random) -> bytes:
    """Return the durable content with a prefix of the pending changes, the last of them perhaps torn.

    Or with any of the writes and all changes of the size: where a write is missing, the file has zeros.
    """
    content = bytearray(inode.durable)
    if chance.random() < 0.25:
        for kind, position, data in inode.pending:
            is_lost = kind == "write" and chance.random() < 0.3
            apply_changes(content, [("size", position + len(data), b"") if is_lost else (kind, position, data)])
        return bytes(content)
    count = chance.randint(0, len(inode.pending))
    apply_changes(content, inode.pending[:count])
    if count < len(inode.pending) and inode.pending[count][0] == "write" and chance.random() < 0.5:
        kind, position, data = inode.pending[count]
        kept = chance.randint(0, len(data))
        if chance.random() < 0.5:
            kept -= kept % SECTOR_BYTES
        apply_changes(content, [(kind, position, data[:kept])])
    return bytes(content)
