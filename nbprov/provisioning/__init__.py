"""Turns a plan into a cluster and looks after it: launches, the ledger, and supervision.

It imports model, runtime, clouds, spec and remote, and nothing of machines, api or notebook; what
those do for an engine it gets as `EngineHooks`. Start reading at `engine.py`, which composes the
parts; `run/` is one launch, `supervision/` and `replacement/` are clusters that are up.
"""
