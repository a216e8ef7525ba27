"""What the double's Google Cloud sells."""

from __future__ import annotations

import re

from nbprov.clouds.gcp.catalog.machine_types import DEVICES, machines

ROOT = "https://www.googleapis.com/compute/v1"
TYPES = {m.name: m for m in machines() if m.name}
DEVICE_NAMES = {d.api_name: d.name for d in DEVICES}
ZONE = re.compile(r"[a-z]+-[a-z]+\d+-[a-z]", re.ASCII)
IMAGES = {
    ("ubuntu-os-cloud", "ubuntu-2204-lts"): 10,
    ("ubuntu-os-cloud", "ubuntu-2204-lts-arm64"): 10,
    ("ubuntu-os-accelerator-images", "ubuntu-accelerator-2204-amd64-with-nvidia-580"): 20,
    ("deeplearning-platform-release", "common-cu128-ubuntu-2204-nvidia-570"): 50,
}
