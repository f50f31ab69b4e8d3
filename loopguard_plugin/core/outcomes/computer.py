"""``computer``: the state of a window, whose references are new with each look (SPEC 5 row 13)."""

from __future__ import annotations

from .parts import Compared
from .without import without


def compare(result: object, details: dict[str, object]) -> Compared | None:
    """What holds the observation, without its id, its elements' references and the ``content`` that repeats it."""
    for holder in (result, details, details.get("result")):
        observation = holder.get("observation") if isinstance(holder, dict) else None
        if isinstance(holder, dict) and isinstance(observation, dict) and observation.get("kind") == "window":
            value = {key: item for key, item in holder.items() if key != "content"}
            value["observation"] = _unreferenced(observation)
            return Compared(13, value)
    return None


def _unreferenced(observation: dict[str, object]) -> dict[str, object]:
    kept = {key: item for key, item in observation.items() if key != "observationId"}
    if "elements" in kept:
        kept["elements"] = without(kept["elements"], _reference)
    return kept


def _reference(element: dict[str, object]) -> tuple[str]:
    return ("elementRef",)
