"""What repeats, kept up to date call by call: one small file a streak, all with the same verbs.

``add`` takes the next record of the window, ``forget`` the record that just left it, ``clear`` or ``rebuild`` start
over after a late result, ``count`` answers for a call that is about to start.
"""
