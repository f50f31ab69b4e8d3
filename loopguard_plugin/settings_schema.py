"""The JSON Schema of everything in SPEC 11, for settings pages and editors.

It comes from the annotations of ``settings_model``, as the reader's checks do, so the two cannot drift apart. What no
single value shows (thresholds that have to rise, aliases that go in a circle) is beyond it. It is written without
references, because pages that make forms of schemas often do not follow them.
"""

from __future__ import annotations

import inspect as python
from typing import Any, TypeAlias, cast

from msgspec import inspect

from .settings_plugin import ConfigFile

DIALECT = "https://json-schema.org/draft/2020-12/schema"

Schema: TypeAlias = dict[str, Any]


def config_schema() -> Schema:
    """A JSON Schema (draft 2020-12) for a gateway's whole config file; it lets everything through that is not ours.

    ``default`` is what an absent key means; an agent's own settings have none, for there the global ones hold.
    ``null`` is accepted as absent everywhere.
    """
    root = _schema(inspect.type_info(ConfigFile), defaults=True)
    about = {"title": "loopguard", "description": "The settings of loopguard in a gateway's config file."}
    return {"$schema": DIALECT, **root, **about}


def _schema(kind: inspect.Type, *, defaults: bool) -> Schema:
    match kind:
        case inspect.Metadata(type=inner, extra_json_schema=said):
            stated = {key: value for key, value in (said or {}).items() if defaults or key != "default"}
            return {**_schema(inner, defaults=defaults), **stated}
        case inspect.UnionType(types=options):
            (real,) = (option for option in options if not isinstance(option, inspect.NoneType))
            return _or_null(_schema(real, defaults=defaults))
        case inspect.StructType():
            return _object(kind, defaults=defaults)
        case inspect.DictType(key_type=key, value_type=value):
            named = (
                {"propertyNames": {"pattern": key.pattern}} if isinstance(key, inspect.StrType) and key.pattern else {}
            )
            return {"type": "object", **named, "additionalProperties": _schema(value, defaults=defaults)}
        case inspect.VarTupleType(item_type=item):
            return {"type": "array", "items": _schema(item, defaults=defaults)}
        case inspect.AnyType():
            return {}
    return _leaf(kind)


def _leaf(kind: inspect.Type) -> Schema:
    match kind:
        case inspect.BoolType():
            return {"type": "boolean"}
        case inspect.IntType() | inspect.FloatType():
            limits = {"minimum": kind.ge, "exclusiveMinimum": kind.gt, "maximum": kind.le}
            name = "integer" if isinstance(kind, inspect.IntType) else "number"
            return {"type": name, **{key: limit for key, limit in limits.items() if limit is not None}}
        case inspect.EnumType(cls=words):
            return {"type": "string", "enum": [str(word.value) for word in words]}
        case inspect.StrType(pattern=pattern):
            return {"type": "string", **({"pattern": pattern} if pattern else {})}
    raise NotImplementedError(f"settings have no fields of type {kind}")


def _object(info: inspect.StructType, *, defaults: bool) -> Schema:
    """An object with its docstring as description; in a gateway's own object only our keys are spoken of."""
    described = (python.getdoc(info.cls) or "").replace("``", "")
    properties = {
        field.encode_name: _schema(field.type, defaults=defaults and field.encode_name != "agents")
        for field in info.fields
    }
    closed: Schema = {"additionalProperties": False} if info.forbid_unknown_fields else {}
    return {"type": "object", "title": info.cls.__name__, "description": described, "properties": properties, **closed}


def _or_null(schema: Schema) -> Schema:
    """The same with ``null`` let in; keywords for numbers, strings and objects do not speak of it."""
    if "type" not in schema:
        return schema
    words = {"enum": [*cast("list[str]", schema["enum"]), None]} if "enum" in schema else {}
    return {**schema, "type": [schema["type"], "null"], **words}
