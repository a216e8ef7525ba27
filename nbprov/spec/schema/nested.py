"""The fields of the smaller maps inside a spec."""

from __future__ import annotations

from .field import Field, Use, Where

_BOOL = ("true", "false")

NESTED_FIELDS = (
    Field(
        "tier", Where.ITEM, "place in the order of preference, from 0; equal tiers compete by price"
    ),
    Field(
        "allow",
        Where.PLACE,
        "names or patterns (`us-*`) of which any will do; none: every place",
        example=("[us-*]",),
    ),
    Field(
        "deny",
        Where.PLACE,
        "names or patterns that are not meant; stronger than allow",
        example=("[us-west-1]",),
    ),
    Field(
        "prefer",
        Where.PLACE,
        "the first choices in their order, before all others",
        example=("[us-east-2]",),
    ),
    Field(
        "strategy",
        Where.RECOVERY,
        "same region first, or the next one",
        values=("failover", "eager_next_region", "none"),
        free=False,
    ),
    Field("max_restarts_on_errors", Where.RECOVERY, "restarts of a failed program", Use.NOTE),
    Field(
        "recover_on_exit_codes",
        Where.RECOVERY,
        "exit codes after which a program is restarted",
        Use.NOTE,
    ),
    Field(
        "idle_minutes",
        Where.AUTOSTOP,
        "minutes without a cell, a job, an ssh session, GPU or CPU use",
    ),
    Field(
        "down",
        Where.AUTOSTOP,
        "true ends the cluster, false stops it and keeps the disk",
        values=_BOOL,
        free=False,
    ),
    Field(
        "wait_for",
        Where.AUTOSTOP,
        "what counts as not idle",
        values=("jobs_and_ssh", "jobs", "none"),
        free=False,
    ),
    Field("hook", Where.AUTOSTOP, "a command run on the machine before it stops"),
    Field("hook_timeout", Where.AUTOSTOP, "seconds the hook may take (3600)"),
    Field(
        "down_after",
        Where.AUTOSTOP,
        "a second clock, which ends a stopped machine: `1d`",
        example=("1d",),
    ),
    Field("total", Where.BUDGET, "the most this spec may ever cost, in USD", example=("10",)),
    Field(
        "warn", Where.BUDGET, "shares of the budget at which to warn", example=("[50%, 80%, 95%]",)
    ),
    Field(
        "at_limit", Where.BUDGET, "what happens at the limit", values=("down", "stop"), free=False
    ),
    Field("width", Where.RACE, "how many machines may be tried at once (2)", example=("3",)),
    Field(
        "hedge",
        Where.RACE,
        "how long a place may take before the next is tried beside it",
        values=("auto",),
        example=("20s", "auto"),
    ),
    Field(
        "for",
        Where.WAIT,
        "how long to watch for stock once every place was refused",
        example=("4h",),
    ),
    Field(
        "notify",
        Where.WAIT,
        "tell you when the wait ends; or a webhook URL to post it to",
        values=_BOOL,
        example=("true",),
    ),
    Field(
        "jump",
        Where.CONFIRM,
        "by how much a place may be dearer than the first one",
        example=("20%",),
    ),
    Field("hourly", Where.CONFIRM, "USD an hour for the whole cluster", example=("5",)),
    Field("total", Where.CONFIRM, "USD for the whole cluster", example=("50",)),
    Field(
        "command",
        Where.HEALTH,
        "a command that succeeds on a healthy machine",
        example=("nvidia-smi -L",),
    ),
    Field(
        "http",
        Where.HEALTH,
        "port and path that answer with success",
        advice="it is not asked yet",
        example=('":8000/ok"',),
    ),
    Field(
        "every",
        Where.HEALTH,
        "time between two checks (30s)",
        advice="until the machine is ready, not yet after that",
        example=("30s",),
    ),
    Field("timeout", Where.HEALTH, "how long one check may take (10s)", example=("10s",)),
    Field(
        "failures",
        Where.HEALTH,
        "how many in a row make a machine unhealthy (3)",
        advice="until the machine is ready, not yet after that",
        example=("3",),
    ),
    Field(
        "on_fail",
        Where.HEALTH,
        "what is done with a machine that fails later",
        values=("report", "replace", "down"),
        free=False,
        advice="a machine that fails before it is ready is replaced; later failures are not looked for yet",
    ),
    Field("version", Where.PYTHON, "of Python; `3.12.4` is that very release", example=('"3.12"',)),
    Field(
        "requirements",
        Where.PYTHON,
        "packages as a list, or a local requirements.txt or pyproject.toml",
        example=('[numpy, "pandas>=2"]', "requirements.txt"),
    ),
    Field(
        "lock",
        Where.PYTHON,
        "a uv.lock here, or of the git repository that workdir is, or the folder it is in; instead of requirements",
        example=("uv.lock",),
    ),
    Field("source", Where.MOUNT, "local file or folder, a list of them, or a URI"),
    Field(
        "mode",
        Where.MOUNT,
        "how it gets there: COPY",
        values=("COPY", "MOUNT", "MOUNT_CACHED"),
        free=False,
    ),
    Field("store", Where.MOUNT, "kind of bucket"),
    Field("name", Where.MOUNT, "name of a bucket"),
    Field("persistent", Where.MOUNT, "whether the bucket stays", values=_BOOL, free=False),
    Field("type", Where.MOUNT, "how the bucket is used: `DATASET_RO`"),
    Field("config", Where.MOUNT, "options of the mount"),
    *(
        Field(name, Where.CONFIG, "settings of a platform nbprov does not drive", Use.NOTE)
        for name in ("kubernetes", "ssh", "slurm", "active_workspace")
    ),
    Field("docker", Where.CONFIG, "options of the container"),
    Field(
        "hooks",
        Where.CONFIG,
        "commands at stop, down or preemption",
        advice="only autostop.hook is run yet",
    ),
    *(
        Field(
            name,
            Where.CONFIG,
            "where and how this cloud's machines live",
            Use.ERROR,
            advice="it changes where or how the machine lives",
        )
        for name in (
            "aws",
            "azure",
            "gcp",
            "lambda",
            "nebius",
            "nvidia_gpus",
            "oci",
            "runpod",
            "vast",
        )
    ),
    Field(
        "run_options",
        Where.DOCKER,
        "options of `docker run`",
        advice="no container is started with them yet",
        example=('["--ipc=host"]',),
    ),
    Field("run", Where.HOOK, "the command", example=("./save.sh",)),
    Field(
        "events",
        Where.HOOK,
        "when it is run",
        values=("stop", "down", "preemption"),
        free=False,
        example=("[stop, down]",),
    ),
    Field("timeout", Where.HOOK, "seconds it may take (3600)", example=("60",)),
)
