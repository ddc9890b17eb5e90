"""Building blocks of immutable types: columns of equal length, read-only mappings, and arrays that stay frozen.

Arrays and mappings stay read-only when a value is copied or pickled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from typing import Any, NoReturn, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from fabriclab import units

Key = TypeVar("Key")
Item = TypeVar("Item")


def column(value: Any, name: str) -> NDArray[Any]:
    """Return ``value`` as an array with at least one axis; rows of different lengths raise an error that names them."""
    try:
        return np.atleast_1d(value)
    except ValueError:
        msg = f"{name} must be one row of numbers, got rows of different lengths, {value!r:.60}; make them equal"
        raise ValueError(msg) from None


def spread(columns: Mapping[str, Any], n: int | None = None) -> dict[str, NDArray[Any]]:
    """Broadcast columns together, or each to ``n`` entries; an error names the columns whose lengths do not fit."""
    arrays = {name: column(value, name) for name, value in columns.items()}
    try:
        shape: tuple[int, ...]
        if n is None:
            shape = np.broadcast_shapes(*[array.shape for array in arrays.values()])
        else:
            shape = (n,)
        return {name: np.broadcast_to(array, shape) for name, array in arrays.items()}
    except ValueError:
        sizes = [f"{name} {array.shape}" for name, array in arrays.items() if array.size != 1]
        many = "as many as the others" if n is None else f"{n} of them"
        raise ValueError(
            f"each column must have one entry or {many}, got the shapes {', '.join(sizes)}"
        ) from None


def check_pointer(ptr: NDArray[np.integer], entries: int, name: str) -> None:
    """Raise an error unless a row pointer starts at 0, never decreases and ends at the number of entries."""
    if (
        ptr.ndim != 1
        or ptr.size < 1
        or ptr[0] != 0
        or ptr[-1] != entries
        or np.any(np.diff(ptr) < 0)
    ):
        raise ValueError(
            f"{name} must rise from 0 to {entries} (one more entry than rows), got {ptr[:4]}..{ptr[-1:]}"
        )


def frozen(value: ArrayLike, dtype: DTypeLike, name: str = "an array") -> NDArray[Any]:
    """Return ``value`` as a contiguous array that nobody can write to; it is copied unless it already is such an array.

    The memory belongs to a ``bytes`` object. A read-only flag alone would not do, because the owner of an array can
    clear it again.

    Raises
    ------
    TypeError
        If the values are not numbers.
    ValueError
        If ``dtype`` is integer or bool and cannot represent the values exactly.
    """
    given, kind = column(value, name), np.dtype(dtype)
    wanted = {"i": f"whole numbers ({kind})", "b": "True or False"}.get(
        kind.kind, "plain numbers in SI units"
    )
    if given.size and given.dtype.kind not in ("biuf" if kind.kind == "b" else "iuf"):
        hint = "; units.parse reads text with a unit" if kind.kind == "f" else ""
        raise TypeError(f"{name} must be {wanted}, got {given.ravel().tolist()[0]!r}{hint}")
    with np.errstate(invalid="ignore"):
        array = np.ascontiguousarray(given, dtype=kind)
    if kind.kind in "ib" and given.dtype != kind and not np.array_equal(array, given):
        raise ValueError(f"{name} must be {wanted}, got {given[array != given][0]}")
    return _sealed(array)


def _sealed(array: NDArray[Any]) -> NDArray[Any]:
    """Return the array with its memory in a ``bytes`` object; it is copied unless its memory is there already."""
    owner: Any = array
    while type(owner) is np.ndarray:
        owner = owner.base
    return array if type(owner) is bytes else np.ndarray(array.shape, array.dtype, array.tobytes())


def freeze(value: Any, kinds: Mapping[str, Any]) -> None:
    """Convert the named fields of a frozen dataclass to frozen arrays, tuples of texts or read-only dicts.

    ``kinds`` gives the target of each field: a NumPy dtype, ``str`` or ``dict``.
    """
    for name, kind in kinds.items():
        given = getattr(value, name)
        kept: object
        if kind is dict:
            kept = ReadOnly(given)
        elif kind is str:
            kept = texts(given, name)
        else:
            kept = frozen(given, kind, name)
        object.__setattr__(value, name, kept)


def check_shape(value: Any, names: Iterable[str], shape: tuple[int, ...]) -> None:
    """Raise an error if one of the named fields does not have this shape."""
    for name in names:
        if getattr(value, name).shape != shape:
            raise ValueError(f"{name} must have shape {shape}, got {getattr(value, name).shape}")


def check_finite(value: Any, units: Mapping[str, str]) -> None:
    """Raise an error if one of the named fields has an entry that is negative or not finite."""
    for name, unit in units.items():
        column = getattr(value, name)
        wrong = ~(np.isfinite(column) & (column >= 0))
        if np.any(wrong):
            raise ValueError(f"{name} must be finite and >= 0{unit}, got {column[wrong][0]}")


def check_within(
    column: NDArray[Any], name: str, low: int, high: int = 2**31 - 1, hint: str = ""
) -> None:
    """Raise an error if a whole number lies outside ``low..high``."""
    wrong = column[(column < low) | (column > high)]
    if wrong.size:
        bound = f">= {low}" if high == 2**31 - 1 else f"within {low}..{high}"
        raise ValueError(f"{name} must be {bound}, got {wrong[0]}{hint}")


def si(value: ArrayLike, name: str, read: Callable[[units.Quantity, str], float]) -> NDArray[Any]:
    """Convert numbers, or a single text with its unit, to a float array in SI units with at least one axis.

    ``read`` parses the text and checks the range. It checks only finite numbers above 0, because each type has its own
    rule for zero, for negative numbers and for what is not finite.
    """
    number: ArrayLike = read(value, name) if isinstance(value, str) else value
    array = frozen(number, np.float64, name)
    in_question = array[np.isfinite(array) & (array > 0)]
    if in_question.size:
        read(float(in_question.min()), name)
        read(float(in_question.max()), name)
    return array


def whole(
    value: ArrayLike, name: str, shape: tuple[int, ...], what: str, bound: int = 2**31
) -> NDArray[np.int64]:
    """Return ``value`` as whole numbers of the given shape, where -1 stands for any length, or raise an error.

    ``what`` says in the error what the numbers mean. With a ``bound`` below 2**31 each number must lie in 0..bound - 1.
    """
    given = column(value, name)
    fits = given.ndim == len(shape) and all(
        n in (-1, found) for n, found in zip(shape, given.shape, strict=True)
    )
    if not fits or given.dtype.kind not in "iu":
        wanted = str(shape).replace("-1", "any")
        raise ValueError(
            f"{name} must be whole numbers of shape {wanted} ({what}), got {given.dtype} {given.shape}"
        )
    if bound < 2**31:
        check_within(given, name, 0, bound - 1)
    return given.astype(np.int64)


def texts(value: Iterable[str], name: str) -> tuple[str, ...]:
    """Return names as a tuple; a single text is refused, because it would fall apart into its letters."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise TypeError(
            f"{name} must be a sequence of texts such as [{str(value)!r:.80}], got {value!r:.80}"
        )
    return tuple(value)


class ReadOnly(dict[Key, Item]):
    """A dict that cannot be changed, not even after it was copied or pickled; JSON writes it as an object."""

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("this mapping is read-only; make a dict of it, dict(...), and change that")

    __setitem__ = __delitem__ = __ior__ = pop = popitem = clear = update = setdefault = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy the mapping as a plain dict together with its attributes."""
        return _restored, (type(self), dict(self), vars(self))


def _restored(
    cls: type[ReadOnly[Any, Any]], items: dict[Any, Any], attributes: dict[str, Any]
) -> Any:
    new = cls.__new__(cls)
    dict.update(new, items)
    vars(new).update(attributes)
    return new


class Value:
    """Base of the frozen types: copies and pickles keep their arrays frozen and leave cached properties behind."""

    def cut(self, **columns: NDArray[Any]) -> Self:
        """Return a value like this one with some columns replaced, without checking them again.

        The new columns must be parts of columns that were checked already; they keep their dtypes.
        """
        new = object.__new__(type(self))
        new.__setstate__({**self.__getstate__(), **columns})
        return new

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields of the dataclass, without what was cached."""
        return {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Set all fields and freeze the arrays among them."""
        for name, item in state.items():
            object.__setattr__(self, name, _sealed(item) if isinstance(item, np.ndarray) else item)
