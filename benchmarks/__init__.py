"""What the guard costs, beside the floor and beside other guards.

Each script asks one question and prints a Markdown table::

    python -m benchmarks.core_cycle       what does a call cost, against the floor and against other guards?
    python -m benchmarks.bus_cycle        what do the bus and the middleware add?
    python -m benchmarks.result_size      how does the cost grow with the result?
    python -m benchmarks.outcome_kinds    what does each row of SPEC 5 cost?
    python -m benchmarks.exec_failures    what do failing commands full of times and ids cost?
    python -m benchmarks.nonces           is comparing hostile text linear in its size?
    python -m benchmarks.history_size     how does the cost grow with `historySize`?
    python -m benchmarks.open_runs        ... with the number of open runs?
    python -m benchmarks.memory           what is kept per run?
    python -m benchmarks.import_time      what does importing cost?
    python -m benchmarks.snapshot         what does a restart cost?
    python -m benchmarks.replay           how fast are recorded sessions replayed?
    python -m benchmarks.hook_start       what does one call of the Claude Code hook cost over bare Python?
    python -m benchmarks.host_overhead    what is added to a call inside LangChain or hermes-agent? (needs one of them)
    python -m benchmarks.everything       all of the above, for docs/speed.md
    python -m benchmarks.where            where does the time of a call go? (``--opcodes``: bytecodes by function)
    python -m benchmarks.check            does any ratio fall behind? (exit status 1 if so; needs no other guard)

The other guards come with the dependency group ``bench`` (``pip install --group bench``); those that are not
installed are left out, and the table says so.

How it is measured: one process, pinned to one core where the system allows it. All that the contenders are given
(events, arguments, results) is built before the clock starts. The contenders of a table take turns, round by round
(A B C A B C ...); a cell is the median over the rounds, a ratio the median of the ratios within each round, so that a
machine that slows down for a while slows all of them. The garbage collector is on, and what was built before is
frozen out of its sight, for all alike. The clock is processor time. Ratios are what to read: microseconds belong to
one machine.
"""
