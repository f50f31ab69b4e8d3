"""What an object that is not JSON is made of: its type's name, its contents or its fields. Never an address.

Objects come from frameworks and may raise in anything that is asked of them; what cannot be read is left out or
marked, and nothing raises out of here.
"""

from __future__ import annotations

import functools
import re
import types
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from .troubles import note

_UNREADABLE: Final = "\udcff unreadable"  # a lone surrogate: no field has this text by chance


def type_name(cls: type) -> bytes:
    """A type's module and qualified name."""
    try:
        return f"{cls.__module__}.{cls.__qualname__}".encode("utf-8", "surrogatepass")
    except Exception:  # a metaclass may raise anything
        return b"object"


def content_of(value: object) -> bytes | None:
    """The contents of types whose instances have no fields to read, as bytes; None for all others."""
    cls = type(value)
    try:
        for family, content in _CONTENTS:
            if issubclass(cls, family):
                return content(value)
        if hasattr(cls, "__fspath__"):
            return _text(cls.__fspath__(value))
        if any(base.__module__ in _SPOKEN for base in cls.__mro__):
            return _text(value)
        if hasattr(cls, "getvalue") and any(base.__module__ == "_io" for base in cls.__mro__):
            return _buffer(value)
        if cls.__module__ not in ("builtins", "array", "numpy"):
            return None
        view = memoryview(value)  # type: ignore[arg-type]  # arrays export their memory; most others raise TypeError
        if "O" in view.format or "P" in view.format:  # addresses
            return None
        return repr((view.format, view.shape)).encode() + view.tobytes()
    except Exception:
        return None


def fields_of(value: Any) -> dict[str, object] | None:
    """The fields of an object by name: declared ones (dataclass, attrs, msgspec, pydantic), else ``__dict__`` and
    slots; for an exception its arguments too. None where there are none.

    Values that ``functools.cached_property`` keeps beside the fields are left out: they say nothing new, and come
    into being when somebody looks.
    """
    cls = type(value)
    try:
        own = object.__getattribute__(value, "__dict__")
    except Exception:
        own = None
    fields: dict[str, object] = {}
    try:
        names = _declared(cls)
        if type(own) is dict and (names is None or hasattr(cls, "__pydantic_fields__")):
            fields.update((name, item) for name, item in own.items() if not _cached(cls, name))
        for name in _slots(cls) if names is None else names:
            fields[name] = own[name] if type(own) is dict and name in own else read(value, name)
        if issubclass(cls, BaseException):
            fields["args"] = value.args
        elif issubclass(cls, (types.MappingProxyType, deque)):
            fields["items"] = dict(value) if cls is types.MappingProxyType else list(value)
    except Exception as error:
        note(error)  # what was read so far has to do
    return fields or None


def _declared(cls: type) -> tuple[str, ...] | None:
    """The names of the fields that a class declares in one of the known ways."""
    if hasattr(cls, "__struct_fields__"):
        return tuple(cls.__struct_fields__)
    if hasattr(cls, "__pydantic_fields__"):
        return ("__pydantic_extra__",)
    if hasattr(cls, "__dataclass_fields__"):
        return tuple(cls.__dataclass_fields__)
    if hasattr(cls, "__attrs_attrs__"):
        return tuple(attribute.name for attribute in cls.__attrs_attrs__)
    return None


def _slots(cls: type) -> list[str]:
    """The slots of a class and its bases, private names spelled as they are stored."""
    names = []
    for base in type.mro(cls):
        slots = base.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            hidden = name.startswith("__") and not name.endswith("__")
            if not (name.startswith("__") and name.endswith("__")):
                names.append(f"_{base.__name__.lstrip('_')}{name}" if hidden else name)
    return names


def _cached(cls: type, name: str) -> bool:
    return any(isinstance(base.__dict__.get(name), functools.cached_property) for base in cls.__mro__)


def read(value: object, name: str) -> object:
    """An attribute; None where there is none, a mark where reading it raises."""
    try:
        return getattr(value, name)
    except AttributeError:
        return None
    except Exception:
        return _UNREADABLE


# Modules of the standard library whose values say all they are as text. By name, for importing them costs more than
# the whole package.
_SPOKEN: Final = frozenset(("datetime", "decimal", "fractions", "ipaddress", "uuid", "zoneinfo"))

# Any: each of these gets values of its own types only.


def _text(value: Any) -> bytes:
    return str(value).encode("utf-8", "surrogatepass")


def _raw(value: Any) -> bytes:
    return bytes(value)


def _buffer(value: Any) -> bytes:
    """All that is in a stream in memory, wherever it has been read to."""
    held = value.getvalue()
    return held.encode("utf-8", "surrogatepass") if isinstance(held, str) else bytes(held)


def _name(value: Any) -> bytes:
    name = getattr(value, "__qualname__", None) or value.__name__
    return f"{getattr(value, '__module__', None)}.{name}".encode("utf-8", "surrogatepass")


def _pattern(value: Any) -> bytes:
    return repr((value.pattern, value.flags)).encode("utf-8", "surrogatepass")


_CONTENTS: Final[tuple[tuple[type | tuple[type, ...], Callable[[Any], bytes]], ...]] = (
    ((bytes, bytearray, memoryview), _raw),
    ((complex, range), _text),
    (re.Pattern, _pattern),
    ((type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType), _name),
)
