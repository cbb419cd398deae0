"""Bundles as ZIP files, which every system can open."""

import hashlib
import json
import os
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, cast

from watchkeeper.crash import crashpoint
from watchkeeper.domain.bundle import MANIFEST, Member, faults, manifest
from watchkeeper.errors import BadTask, NotFound, Refused, StateError
from watchkeeper.ports.bundles import BundleFacts, Part

_PART = 256 * 1024
_LARGEST_MANIFEST = 16 * 1024 * 1024
_WRITABLE = "Choose a directory that you may write to and that has room."


class ZipBundles:
    """The port's `Bundles`."""

    def write(self, file: Path, parts: Iterable[Part], about: Mapping[str, object], *, replace: bool) -> BundleFacts:
        """Write a bundle. Raises Refused and StateError as the port says."""
        if os.path.lexists(file) and not replace:
            raise Refused(f"There is a file '{file}' already.", hint="Choose another name, or replace it with --force.")
        temporary = file.with_name(f".{file.name}.{os.getpid()}.{os.urandom(4).hex()}.tmp")
        try:
            with _private(temporary) as stream, zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
                members = [_add(archive, part) for part in parts]
                text = json.dumps(manifest(about, members), indent=2, ensure_ascii=True).encode("ascii")
                _ = _add(archive, Part(name=MANIFEST, pieces=[text]))
            size = temporary.stat().st_size
            _name(temporary, file, replace=replace)
        except FileExistsError as error:
            raise Refused(f"There is a file '{file}' already.", hint="Replace it with --force.") from error
        except OSError as error:
            raise StateError(
                f"The bundle '{file}' cannot be written: {error.strerror or error}.", hint=_WRITABLE
            ) from error
        finally:
            with suppress(FileNotFoundError):
                temporary.unlink()
        return BundleFacts(
            path=file, size=size, files=len(members), sha256=hashlib.sha256(text).hexdigest(), about=dict(about)
        )

    def check(self, file: Path) -> BundleFacts:
        """Read a bundle from end to end. Raises NotFound and BadTask as the port says."""
        try:
            with zipfile.ZipFile(file) as archive:
                text, wrong = _manifest(archive)
                members, torn = _members(archive)
        except FileNotFoundError as error:
            raise NotFound(f"There is no file '{file}'.", hint="`wk bundle ID` writes one.") from error
        except (
            OSError,
            zipfile.BadZipFile,
            NotImplementedError,
        ) as error:  # the last: a format newer than zipfile reads
            raise BadTask(f"'{file}' is not a bundle: {error}.", hint="`wk bundle ID` writes one.") from error
        known = _decoded(text)
        if not wrong:
            wrong = [*torn, *faults(known, members)]
        about = cast("dict[str, object]", known) if isinstance(known, dict) else {}
        return BundleFacts(
            path=file,
            size=file.stat().st_size,
            files=len(members),
            sha256=hashlib.sha256(text).hexdigest(),
            about={name: value for name, value in about.items() if name not in {"files", "format"}},
            faults=tuple(wrong),
        )


def _private(path: Path) -> IO[bytes]:
    return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w+b")


def _name(temporary: Path, file: Path, *, replace: bool) -> None:
    """Give it its name. Raises FileExistsError where that is taken and must not be replaced."""
    crashpoint("bundle.name.before")
    if replace:
        os.replace(temporary, file)  # noqa: PTH105 - as the gate of crash points knows it
    else:
        os.link(temporary, file)
    crashpoint("bundle.name.after")


def _add(archive: zipfile.ZipFile, part: Part) -> Member:
    digest, size = hashlib.sha256(), 0
    info = zipfile.ZipInfo(part.name, date_time=(1980, 1, 1, 0, 0, 0))
    info.compress_type, info.external_attr = zipfile.ZIP_DEFLATED, 0o600 << 16
    with archive.open(info, "w", force_zip64=True) as out:
        for piece in part.pieces:
            digest.update(piece)
            size += len(piece)
            _ = out.write(piece)
    return Member(name=part.name, size=size, sha256=digest.hexdigest())


def _manifest(archive: zipfile.ZipFile) -> tuple[bytes, list[str]]:
    """The manifest's text, and what is wrong with it."""
    found = [info for info in archive.infolist() if info.filename == MANIFEST]
    if len(found) != 1:
        return b"", ["The manifest is missing." if not found else f"There are {len(found)} manifests."]
    if found[0].file_size > _LARGEST_MANIFEST:
        return b"", ["The manifest cannot be read."]
    try:
        return archive.read(found[0]), []
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError):
        return b"", ["The manifest cannot be read."]


def _members(archive: zipfile.ZipFile) -> tuple[list[Member], list[str]]:
    """The members as they are, but the manifest; and those that cannot be read."""
    members: list[Member] = []
    torn: list[str] = []
    for info in archive.infolist():
        if info.filename == MANIFEST:
            continue
        digest, size = hashlib.sha256(), 0
        try:
            with archive.open(info) as stream:
                for piece in _pieces(stream):
                    digest.update(piece)
                    size += len(piece)
        except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as problem:
            torn.append(f"{info.filename} cannot be read: {problem}.")
            continue
        members.append(Member(name=info.filename, size=size, sha256=digest.hexdigest()))
    return members, torn


def _pieces(stream: IO[bytes]) -> Iterator[bytes]:
    while piece := stream.read(_PART):
        yield piece


def _decoded(text: bytes) -> object:
    try:
        return cast("object", json.loads(text))
    except ValueError:
        return None
