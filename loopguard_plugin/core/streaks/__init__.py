"""What repeats, kept up to date call by call: one small file a streak, all with the same verbs.

``add`` takes the next record of the window, ``forget`` says that the oldest one left it, ``count`` answers for a call
that is about to start. After a late result those that have a ``rebuild`` start over, the others are made anew.
"""
