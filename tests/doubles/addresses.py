"""Ports that none of this process had, under the name that the doubles of this folder use."""

from __future__ import annotations

from nbprov.clouds.contract.addresses import claim

__all__ = ["claim"]
