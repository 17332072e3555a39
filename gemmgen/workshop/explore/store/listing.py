"""Which files of a store hold its rows, whatever other processes write and merge meanwhile."""

from __future__ import annotations

from dataclasses import dataclass, field

from gemmgen.workshop.explore.extras import library
from gemmgen.workshop.explore.store.parquet import replaced_by
from gemmgen.workshop.explore.store.places import Place

MERGED = "-merged.parquet"
TORN = "is not whole, and is left out"


@dataclass(frozen=True)
class Listing:
    """A store's files at a moment.

    Attributes:
        files: bytes of those whose rows count, by name, oldest first.
        replaced: those whose rows a merged file holds as well.
        torn: those that are no Parquet files, and why.
    """

    files: dict[str, int]
    replaced: frozenset[str] = frozenset()
    torn: dict[str, str] = field(default_factory=dict)


def _names(place: Place) -> dict[str, int]:
    """All names of one moment. A listing takes time: one that began before a merged file came may lack it, and the files that it replaced as well.

    So it is repeated until nothing of the one before is missing.
    """
    before = place.names()
    while True:
        now = place.names()
        if before.keys() <= now.keys():
            return dict(sorted(now.items()))
        before = now


class Lister:
    """Lists a store's files, and remembers what does not change: a file that is there never does.

    Args:
        place: the store's.
    """

    def __init__(self, place: Place):
        self.place = place
        self._sound: dict[tuple[str, int], str] = {}
        self._replaces: dict[str, dict[str, int]] = {}

    def __call__(self) -> Listing:
        """The files as they are now."""
        while True:
            names = _names(self.place)
            try:
                torn = {name: why for name, size in names.items() if (why := self._why_torn(name, size))}
                merged = [self._replaces[name] for name in names if name.endswith(MERGED) and name not in torn]
            except FileNotFoundError:  # merged away since it was listed
                continue
            # By size too: a bucket may have had a batch that its writer was told it had not, and get it again with more rows, which must not be lost.
            replaced = frozenset(name for one in merged for name, size in one.items() if names.get(name) == size)
            return Listing({name: size for name, size in names.items() if name not in replaced and name not in torn},
                           replaced, {name: why for name, why in torn.items() if name not in replaced})

    def _why_torn(self, name: str, size: int) -> str:
        """Why a file is not to be read; empty where its beginning and end are Parquet's, and a merged one tells what it replaces."""
        key = name, size
        if key not in self._sound:
            why = "" if self.place.whole(name, size) else "it does not begin and end as Parquet does"
            if not why and name.endswith(MERGED):
                try:
                    self._replaces[name] = replaced_by(self.place, name)
                except FileNotFoundError:
                    raise
                except (OSError, ValueError, library("pyarrow").ArrowException) as error:
                    why = str(error)
            self._sound[key] = why
        return self._sound[key]

    def torn(self, name: str, size: int, why: str) -> None:
        """Count a file out that proved damaged when it was read."""
        self._sound[name, size] = why
