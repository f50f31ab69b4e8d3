"""The greedy search for moves that help a history (pure but for the playing that it is given)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from .tuning_advice import Changed, Results
from .tuning_moves import Choice, Move

Playing: TypeAlias = Callable[[Sequence[Choice]], Results]

ROUNDS: Final = 5  # of adding moves
PRUNING: Final = 3  # of taking away what turned out to be of no use


def search(play: Playing, shared: dict[str, object], moves: Sequence[Move]) -> tuple[Move, ...]:
    """The moves that help together; none that no session is the better for.

    Greedy: each round plays what is chosen so far with each of the moves that are left, and takes the best one, and
    such others as help sessions of their own and harm none. So at most ``ROUNDS + PRUNING`` plays of all sessions,
    each with no more settings than there are moves and one: moves that help nothing in one round are not tried again.
    """
    chosen: tuple[Move, ...] = ()
    certain: tuple[Move, ...] = ()  # what was chosen before the last round, and the best move of that
    left = list(moves)
    promised = None
    for _ in range(ROUNDS):
        if not left:
            break
        results = play([Choice(shared, chosen), *(Choice(shared, (*chosen, move)) for move in left)])
        if promised is not None and results.score(0).rank > promised:  # together they are worse than the best alone
            left += [move for move in chosen if move not in certain]
            chosen, promised = certain, None
            continue
        helping = [at for at in range(1, len(left) + 1) if results.score(at).rank < results.score(0).rank]
        helping.sort(key=lambda at: (results.score(at).rank, at))
        if not helping:
            break
        taken = _together(results, helping)
        certain = (*chosen, left[taken[0] - 1])
        promised = results.score(taken[0]).rank
        chosen = (*chosen, *(left[at - 1] for at in taken))
        left = [left[at - 1] for at in helping if at not in taken]
    return _pruned(play, shared, chosen)


def _together(results: Results, helping: Sequence[int]) -> list[int]:
    """The best move, and others that help sessions of their own and harm none."""
    taken = [helping[0]]
    helped = set(results.changed(helping[0], 0).better)
    for at in helping[1:]:
        changed: Changed = results.changed(at, 0)
        if not changed.worse and not changed.better & helped:
            taken.append(at)
            helped |= changed.better
    return taken


def _pruned(play: Playing, shared: dict[str, object], chosen: tuple[Move, ...]) -> tuple[Move, ...]:
    """Without the moves that no session needs once the others are there; nothing where all together do not help."""
    for _ in range(PRUNING):
        if not chosen:
            return chosen
        without = [tuple(one for one in chosen if one is not move) for move in chosen]
        results = play([Choice(shared, chosen), Choice(shared), *(Choice(shared, moves) for moves in without)])
        if results.score(0).rank >= results.score(1).rank:
            return ()
        idle = [at for at in range(len(chosen)) if results.score(at + 2).rank <= results.score(0).rank]
        if not idle:
            return chosen
        chosen = without[idle[-1]]  # the one that came last helped least
    return chosen
