"""``memory_search`` (SPEC 5 row 12)."""

from __future__ import annotations

from typing import Final

from .parts import Compared, only_details

_MEASURED: Final = ("debug", "timing", "timings")


def compare(result: object, details: dict[str, object]) -> Compared | None:
    """The hits in their order without their scores, and everything else but what was measured meanwhile."""
    hits = details.get("results")
    if not isinstance(hits, list):
        return None
    value = {key: item for key, item in only_details(result, details).items() if key not in _MEASURED}
    value["results"] = [_unscored(hit) for hit in hits]
    return Compared(12, value)


def _unscored(hit: object) -> object:
    if type(hit) is dict:  # a copy takes a third of the time that building it anew does
        kept = hit.copy()
        kept.pop("score", None)
        return kept
    return {key: item for key, item in hit.items() if key != "score"} if isinstance(hit, dict) else hit
