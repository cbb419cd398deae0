"""The manifest of a bundle, and what is wrong with a bundle by its manifest.

A bundle is one archive about one run. Its manifest lists every other member with its size and SHA-256, so a changed, missing or added member is found without
asking the database. The hash of the manifest stands for the whole bundle: a bundle with the same hash is the one that was made.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

FORMAT = 1
MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One file of a bundle."""

    name: str
    size: int
    """Bytes."""
    sha256: str


def manifest(about: Mapping[str, object], members: Sequence[Member]) -> dict[str, object]:
    """The manifest of some members; `about` says what the bundle is about."""
    listed = [{"name": each.name, "size": each.size, "sha256": each.sha256} for each in members]
    return {"format": FORMAT, **about, "files": listed}


def faults(manifest: object, found: Sequence[Member]) -> list[str]:
    """What is wrong with a bundle, a sentence each; empty: it is what its manifest says. `found`: its members but the manifest, as they are."""
    listed = _listed(manifest)
    if isinstance(listed, str):
        return [listed]
    by_name, counts = {each.name: each for each in found}, Counter(each.name for each in found)
    wrong = [f"{name} is there {count} times." for name, count in counts.items() if count > 1]
    wrong += [f"{name} is not in the manifest." for name in counts if name not in listed]
    for name, (size, digest) in listed.items():
        there = by_name.get(name)
        if there is None:
            wrong.append(f"{name} is missing.")
        elif (there.size, there.sha256) != (size, digest):
            wrong.append(f"{name} was changed.")
    return wrong


def _listed(manifest: object) -> dict[str, tuple[int, str]] | str:
    """Size and hash by name, or what is wrong with the manifest."""
    if not isinstance(manifest, dict):
        return "The manifest cannot be read."
    known = cast("dict[str, object]", manifest)
    if known.get("format") != FORMAT:
        return f"The manifest has another format than {FORMAT}; a newer version of wk may read it."
    listed: dict[str, tuple[int, str]] = {}
    files = known.get("files")
    for each in cast("list[object]", files) if isinstance(files, list) else [None]:
        entry = cast("dict[str, object]", each) if isinstance(each, dict) else {}
        name, size, digest = entry.get("name"), entry.get("size"), entry.get("sha256")
        if not isinstance(name, str) or not isinstance(size, int) or not isinstance(digest, str) or name in listed:
            return "The manifest cannot be read."
        listed[name] = (size, digest)
    return listed
