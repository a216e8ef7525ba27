"""Which image a machine starts from: one with an ssh server and, on GPUs, the driver."""

from __future__ import annotations

LOGIN = "pebble"
"""Who logs in on that image."""


def chosen(image: str, region: str, instance_type: str) -> str:
    """Return the image to ask for: `image` if a spec names one, else the cloud's usual one."""
    return image or ("ubuntu-cuda" if instance_type != "p-cpu" else "ubuntu")
