"""What cannot be changed: columns that fit each other, mappings, values that stay frozen when copied or pickled."""

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
    """Return ``value`` as an array of at least one axis; rows of different lengths are refused by name."""
    try:
        return np.atleast_1d(value)
    except ValueError:
        msg = f"{name} must be one row of numbers, got rows of different lengths, {value!r:.60}; make them equal"
        raise ValueError(msg) from None


def spread(columns: Mapping[str, Any], n: int | None = None) -> dict[str, NDArray[Any]]:
    """Return columns broadcast together, or to ``n`` entries; those that do not fit are refused by name."""
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
    """Refuse a row pointer that does not rise from 0 to the number of entries."""
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
    """Return ``value`` as a contiguous array whose memory nobody can write to; copied unless it is one.

    The memory is that of a ``bytes`` object: whoever owns an array can take its read-only flag back.

    Raises
    ------
    TypeError
        If the values are no numbers.
    ValueError
        If ``dtype`` is of whole numbers or of bool and cannot hold the values as they are.
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
    """Return an array whose memory is that of a ``bytes`` object; a copy unless it is one."""
    owner: Any = array
    while type(owner) is np.ndarray:
        owner = owner.base
    return array if type(owner) is bytes else np.ndarray(array.shape, array.dtype, array.tobytes())


def freeze(value: Any, kinds: Mapping[str, Any]) -> None:
    """Set the named fields of a frozen dataclass to frozen arrays of a dtype, texts (str) or a mapping (dict)."""
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
    """Refuse a named field of another shape."""
    for name in names:
        if getattr(value, name).shape != shape:
            raise ValueError(f"{name} must have shape {shape}, got {getattr(value, name).shape}")


def check_finite(value: Any, units: Mapping[str, str]) -> None:
    """Refuse a named field with an entry that is negative or not finite."""
    for name, unit in units.items():
        column = getattr(value, name)
        wrong = ~(np.isfinite(column) & (column >= 0))
        if np.any(wrong):
            raise ValueError(f"{name} must be finite and >= 0{unit}, got {column[wrong][0]}")


def check_within(
    column: NDArray[Any], name: str, low: int, high: int = 2**31 - 1, hint: str = ""
) -> None:
    """Refuse whole numbers outside ``low..high``."""
    wrong = column[(column < low) | (column > high)]
    if wrong.size:
        bound = f">= {low}" if high == 2**31 - 1 else f"within {low}..{high}"
        raise ValueError(f"{name} must be {bound}, got {wrong[0]}{hint}")


def si(value: ArrayLike, name: str, read: Callable[[units.Quantity, str], float]) -> NDArray[Any]:
    """Return numbers, or one text with its unit, as an array of at least one axis; ``read`` knows unit and range.

    The range holds for numbers above 0: the type itself has a rule for 0, for less, and for what is not finite.
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
    """Return whole numbers below ``bound``, which are ``what``, of this shape (-1 for any length), or refuse them."""
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
    """Return names as a tuple; a single text, which would fall into letters, is refused."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise TypeError(
            f"{name} must be a sequence of texts such as [{str(value)!r:.80}], got {value!r:.80}"
        )
    return tuple(value)


class ReadOnly(dict[Key, Item]):
    """A dict that cannot be changed; it stays one in copies and pickles and is an object in JSON."""

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("this mapping is read-only; make a dict of it, dict(...), and change that")

    __setitem__ = __delitem__ = __ior__ = pop = popitem = clear = update = setdefault = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy as a plain dict and the attributes."""
        return _restored, (type(self), dict(self), vars(self))


def _restored(
    cls: type[ReadOnly[Any, Any]], items: dict[Any, Any], attributes: dict[str, Any]
) -> Any:
    new = cls.__new__(cls)
    dict.update(new, items)
    vars(new).update(attributes)
    return new


class Value:
    """Base of the frozen types: their arrays stay frozen in copies and pickles, and what was cached stays behind."""

    def cut(self, **columns: NDArray[Any]) -> Self:
        """Return one with these columns, cut from those of a checked one: they keep dtypes and are checked no more."""
        new = object.__new__(type(self))
        new.__setstate__({**self.__getstate__(), **columns})
        return new

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields of the dataclass."""
        return {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Set all fields."""
        for name, item in state.items():
            object.__setattr__(self, name, _sealed(item) if isinstance(item, np.ndarray) else item)
