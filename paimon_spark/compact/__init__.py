"""Compaction of one bucket: decide (levels, picker, task), execute (rewriters), record (commit).

The three modules that decide are pure: they turn what the manifests say of a bucket's files into a plan, without
opening a file, and the plan is plain data.
"""
