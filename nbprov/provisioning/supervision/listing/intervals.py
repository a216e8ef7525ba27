"""How often clusters are looked at, and how long a change of theirs is waited for."""

from __future__ import annotations

from nbprov.model.clock import Seconds

MOST_WATCH: Seconds = 30.0
"""Between two listings of a cloud at most."""

CONFIRM_SECONDS: Seconds = 600.0
"""How long a person waits for an end or a stop to be confirmed before being told.

Confirming goes on in the background.
"""
