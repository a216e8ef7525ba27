"""Names that specs use for clouds."""

from __future__ import annotations

from collections.abc import Mapping

ALIASES: Mapping[str, str] = {"k8s": "kubernetes"}

_NAMES = """
aws azure cudo do fluidstack gcp hyperbolic hyperstack ibm kubernetes lambda local mithril nebius
oci paperspace primeintellect
runpod scp seeweb shadeform slurm ssh vast verda vsphere yotta
"""
CLOUDS_ELSEWHERE = frozenset(_NAMES.split())
"""Clouds that exist: one without prices or adapter is passed over with a note. Any other name
counts as misspelt.
"""
