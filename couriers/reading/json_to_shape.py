"""Answers whose values have another form than usual, and only one possible meaning.

Couriers turn XML into JSON, and databases into either: a list of one becomes the one, a text of
digits a number, and what is empty becomes "", {} or []. Only what did not fit at first is looked at
here; what has no certain meaning stays as it is, and then the answer cannot be read.
"""

from __future__ import annotations

import functools
import types
import typing
from collections.abc import Mapping
from typing import Any

import msgspec


def fit_to_shape(value: Any, kind: Any) -> Any:
    """Bring `value` (of decoded JSON) into the form that the type `kind` asks for, where it can."""
    kinds = typing.get_args(kind) if _is_union(kind) else (kind,)
    of_list = next((typing.get_args(each)[0] for each in kinds if _is_list(each)), None)
    shape = next((each for each in kinds if _is_shape(each)), None)
    if value in ("", {}, []):
        own = list if of_list else dict if shape else str
        return value if isinstance(value, own) else None
    match value:
        case dict() if shape is not None:
            value = _members(value, shape)
        case dict() if of_list is not None:
            value = [fit_to_shape(value, of_list)]
        case list() if of_list is not None:
            value = [fit_to_shape(each, of_list) for each in value if each is not None]
        case [single] if shape is not None:
            value = fit_to_shape(single, kind)
        case int() | float() if str in kinds and int not in kinds and not isinstance(value, bool):
            value = str(value)
    return value


def _members(value: Mapping[str, Any], shape: type[msgspec.Struct]) -> dict[str, Any]:
    kinds = _kinds(shape)
    return {name: fit_to_shape(each, kinds[name]) for name, each in value.items() if name in kinds}


@functools.cache
def _kinds(shape: type[msgspec.Struct]) -> Mapping[str, Any]:
    """Look up the members of a shape and their types; there are as many as modules declare."""
    return {field.encode_name: field.type for field in msgspec.structs.fields(shape)}


def _is_shape(kind: Any) -> typing.TypeGuard[type[msgspec.Struct]]:
    return isinstance(kind, msgspec.StructMeta)


def _is_union(kind: Any) -> bool:
    return typing.get_origin(kind) in (typing.Union, types.UnionType)


def _is_list(kind: Any) -> bool:
    return typing.get_origin(kind) is list
