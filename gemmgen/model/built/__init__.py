"""Built, not written: each file here is the output of a program, which its first line names. No person edits it.

They are part of the source, as generated kernels are: importing SymPy takes longer than solving a spec, and code in a cache of the user's folder would be
executed because somebody wrote it there. A test holds each file to what its program writes today.
"""
