"""A copy of nested objects and lists without some of their keys."""

from __future__ import annotations

from collections.abc import Callable, Collection


def without(
    value: object,
    dropped: Callable[[dict[str, object]], Collection[str]],
    reworded: Callable[[str], str] | None = None,
) -> object:
    """A copy without the keys that ``dropped`` gives for each object; anything else stays the very same.

    Strings that are no keys become what ``reworded`` makes of them, where that is given.
    Without recursion: results may be nested as deep as they like. A value inside itself is so in the copy too.
    """
    top: list[object] = [None]
    copies: dict[int, object] = {}
    fields: dict[str, object]
    items: list[object]
    todo: list[tuple[list[object] | dict[str, object], int | str, object]] = [(top, 0, value)]
    while todo:
        holder, place, item = todo.pop()
        copy = copies.get(id(item))
        if copy is None and isinstance(item, dict):
            copy = copies[id(item)] = fields = {}
            drop = dropped(item)
            for key, inner in item.items():
                if key not in drop:
                    if isinstance(inner, (dict, list, tuple)):
                        fields[key] = None  # its place in the order
                        todo.append((fields, key, inner))
                    else:
                        fields[key] = inner if reworded is None or not isinstance(inner, str) else reworded(inner)
        elif copy is None and isinstance(item, (list, tuple)):
            copy = copies[id(item)] = items = [None] * len(item)
            for at, inner in enumerate(item):
                if isinstance(inner, (dict, list, tuple)):
                    todo.append((items, at, inner))
                else:
                    items[at] = inner if reworded is None or not isinstance(inner, str) else reworded(inner)
        elif copy is None and reworded is not None and isinstance(item, str):
            item = reworded(item)
        holder[place] = item if copy is None else copy  # type: ignore[index]  # a key for an object, a number for a list
    return top[0]
