"""Vast.ai, a market place: prices so far."""
