"""The first process of a pod.

It keeps root's home on the volume, runs the start script, serves ssh, and lets the pod end itself.

How the pod gets its start script
---------------------------------
`entrypoint` and `cmd` are replaced by `COMMAND` (as JSON in `args`, which RunPod documents beside
them), so any image with a shell will do. The start script holds the cluster's host key. It is a
RunPod **secret** (`/v2/account/secrets`, never returned by the API) that the environment names as
`{{ RUNPOD_SECRET_… }}`, so that neither the console nor users who list pods can read it. If the key
may not create secrets, the script stands in the environment itself, readable by whoever may list
the account's pods, like EC2 user data. RunPod itself runs the container and could read either; the
keys serve one cluster only.

What a stop keeps
-----------------
RunPod wipes a container's disk when a pod stops and keeps its volume (docs.runpod.io, Manage Pods).
So root's home lies on the volume.

How a pod ends itself
---------------------
RunPod gives each pod `RUNPOD_POD_ID` and `RUNPOD_API_KEY`, a key "limited in scope to only the pod"
(docs.runpod.io, Pod environment variables). It documents `runpodctl stop pod $RUNPOD_POD_ID` and
`runpodctl remove pod` inside a pod, whose runpodctl is "installed with a Pod-scoped API key"
(docs.runpod.io, runpodctl). `POWEROFF` asks REST v2 with that key, then GraphQL (until it is
retired), then runpodctl. ssh sessions do not inherit a container's environment, so the key is kept
in a file that only root can read. Read in 2026-11.
"""

from __future__ import annotations

import base64
import json
from importlib.resources import files

VOLUME = "/workspace"
"""Where RunPod's images expect the pod's volume."""
START_VARIABLE = "NBPROV_START"
PASSED = (
    "PATH LD_LIBRARY_PATH LIBRARY_PATH CUDA_HOME CUDA_VERSION ROCM_PATH NVIDIA_VISIBLE_DEVICES "
    "NVIDIA_DRIVER_CAPABILITIES CONDA_PREFIX"
    " VIRTUAL_ENV PYTHONPATH LANG LC_ALL TZ RUNPOD_POD_ID RUNPOD_DC_ID RUNPOD_GPU_COUNT "
    "RUNPOD_PUBLIC_IP NBPROV_NODE"
)
"""Variables of the container that ssh sessions inherit: the image's paths, and nothing secret."""


def _script(name: str) -> str:
    return (files(__package__) / "scripts" / name).read_text(encoding="utf-8")


POWEROFF = _script("poweroff.sh")

COMMAND = _script("entrypoint.sh")


def command(api: str) -> str:
    """Return the script of a pod's first process; it holds no secret."""
    text = (
        COMMAND.replace("@@volume@@", VOLUME).replace("@@passed@@", PASSED).replace("@@api@@", api)
    )
    return text.replace("@@poweroff@@", base64.b64encode(POWEROFF.encode()).decode())


def arguments(api: str) -> str:
    """Return `args` of a pod: an entry point and a command in the JSON form that RunPod documents.

    Examples
    --------
    >>> sorted(json.loads(arguments("https://api.runpod.io")))
    ['cmd', 'entrypoint']
    """
    return json.dumps({"entrypoint": ["/bin/sh", "-c"], "cmd": [command(api)]})


def packed(script: str) -> str:
    """Encode the start script for the environment, without quotes, breaks and template marks."""
    return base64.b64encode(script.encode()).decode()


def poweroff_command() -> str:
    """Return `Capabilities.poweroff`; its user fills in `{mode}` and `{reason}`.

    Examples
    --------
    >>> poweroff_command().format(mode="stop", reason="'idle for 60 min'")
    'sh "$HOME/.nbprov/poweroff" stop \\'idle for 60 min\\''
    """
    return 'sh "$HOME/.nbprov/poweroff" {mode} {reason}'
