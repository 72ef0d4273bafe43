"""An array that lies in several files, read as one: what is asked for is read, and no more."""

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar, overload

import numpy as np
import numpy.typing as npt

Kind = TypeVar("Kind", bound=np.generic)
Places = npt.NDArray[np.integer[Any]]


class JoinedArray(Generic[Kind]):
    """Parts end to end; reading it gives plain arrays.

    `part(k)` is the array of part k, of `sizes[k]` numbers at least, to which `added[k]` is added:
    offsets within a part become offsets within the whole. Parts are mapped when they are asked for.
    """

    def __init__(
        self,
        part: Callable[[int], npt.NDArray[Kind]],
        sizes: Sequence[int],
        dtype: "np.dtype[Kind]",
        added: Sequence[int] | None = None,
    ) -> None:
        self._part = part
        self._starts = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
        self._added = added
        self.dtype = dtype

    def __len__(self) -> int:
        return int(self._starts[-1])

    @overload
    def __getitem__(self, place: "int | np.integer[Any]") -> Any: ...
    @overload
    def __getitem__(self, place: slice | Places) -> npt.NDArray[Kind]: ...
    def __getitem__(self, place: "int | np.integer[Any] | slice | Places") -> Any:
        if isinstance(place, slice):
            return self._slice(*place.indices(len(self)))
        if isinstance(place, np.ndarray):
            return self._gathered(place)
        return self._gathered(np.array([place]))[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError("an array of several files cannot be had without copying it")
        return np.asarray(self[:], dtype=dtype)

    def _values(self, part: int, own: slice | Places) -> npt.NDArray[Kind]:
        values = self._part(part)[own]
        if self._added is None or not self._added[part]:
            return values
        return np.asarray(values + self._added[part], dtype=self.dtype)

    def _slice(self, start: int, stop: int, step: int) -> npt.NDArray[Kind]:
        if step != 1:
            return self._gathered(np.arange(start, stop, step))
        stop = max(start, stop)
        first = int(np.searchsorted(self._starts, start, "right")) - 1
        last = int(np.searchsorted(self._starts, stop, "left"))
        pieces = [np.zeros(0, dtype=self.dtype)]
        for part in range(first, min(last, len(self._starts) - 1)):
            begin, end = self._starts[part : part + 2].tolist()
            if max(start, begin) < min(stop, end):
                own = slice(max(start - begin, 0), min(stop, end) - begin)
                pieces.append(self._values(part, own))
        return pieces[1] if len(pieces) == 2 else np.concatenate(pieces)

    def _gathered(self, places: Places) -> npt.NDArray[Kind]:
        places = np.where(places < 0, places + len(self), places)
        if len(places) and not 0 <= int(places.min()) <= int(places.max()) < len(self):
            raise IndexError(f"there are {len(self)} numbers")
        part_of = np.searchsorted(self._starts, places, "right") - 1
        found = np.empty(len(places), dtype=self.dtype)
        for part in np.unique(part_of).tolist():
            mine = part_of == part
            found[mine] = self._values(part, places[mine] - self._starts[part])
        return found
