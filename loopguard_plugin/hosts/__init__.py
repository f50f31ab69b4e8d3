"""loopguard inside agent hosts: one module a host, one optional extra each, the same two names in each.

``Adapter`` is what the host itself understands (hooks, middleware, a plugin); ``attach(target, config=None)`` puts one
into the host in a line and returns it. ``config`` is a path to the gateway's JSON5 file, ``Settings``, a mapping of the
same shape, a ``LoopGuard`` of one's own, or None for the defaults. Each module's docstring says what its host cannot
do, and has an example that runs.
"""
