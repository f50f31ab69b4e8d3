"""The floor: what comparing calls and results cannot do without, and nothing else.

One sorted serialisation and one hash of the arguments; one encoding (text) or sorted serialisation (anything else)
and one hash of the result.
"""

from __future__ import annotations

from collections.abc import Sequence

from orjson import OPT_SORT_KEYS, dumps
from xxhash import xxh3_128_intdigest

from .measure import Contender, Timed
from .workload import Call

NAME = "floor"


def floor(runs: Sequence[Sequence[Call]]) -> Contender:
    """The floor over these runs; a failed call has its error for a result."""
    pairs = [(call.args, call.result if call.error is None else call.error) for calls in runs for call in calls]

    def timed() -> None:
        for args, result in pairs:
            xxh3_128_intdigest(dumps(args, None, OPT_SORT_KEYS))
            xxh3_128_intdigest(result.encode() if type(result) is str else dumps(result, None, OPT_SORT_KEYS))

    def prepare() -> Timed:
        return timed

    return Contender(name=NAME, per=len(pairs), prepare=prepare)
