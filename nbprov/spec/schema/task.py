"""The fields at the top level of a spec."""

from __future__ import annotations

from .field import Field, FieldUse, Section

_T = Section.TASK

TASK_FIELDS = (
    Field("resources", _T, "demands on each node; a list of maps is read as `ordered`"),
    Field("run", _T, "the command run on all nodes after setup"),
    Field("setup", _T, "the command run on all nodes before run"),
    Field("name", _T, "name of the cluster: letters, digits, `.` `_` `-`"),
    Field("envs", _T, "variables for setup and run; null = given when the cell is run"),
    Field("num_nodes", _T, "equal machines in one region; the first is the head"),
    Field(
        "workdir",
        _T,
        "a local folder copied to ~/sky_workdir, or a git repository cloned there: "
        "{url: https://…, ref: main}",
    ),
    Field(
        "file_mounts",
        _T,
        "target on the machine: local file or folder, `s3://`, `gs://`, `r2://` or `https://`",
    ),
    Field(
        "secrets", _T, "hidden variables; null = taken from the kernel's environment or asked for"
    ),
    Field(
        "max_lifetime",
        _T,
        "terminates whatever runs: `8h` from the first billed second",
        example=("8h",),
    ),
    Field(
        "budget",
        _T,
        "the most this spec may ever cost, in USD: all nodes, what lost a race, stopped disks",
        example=("10", "{total: 10, warn: [50%, 80%, 95%], at_limit: down}"),
    ),
    Field("nbprov", _T, "a map for nbprov's own fields, easy to cut out again"),
    Field("managed_secrets", _T, "names of secrets; read as `NAME: null` under `secrets`"),
    Field(
        "service",
        _T,
        "SkyServe's replicas",
        advice="noted; one cluster is started, without replicas or a readiness probe",
    ),
    Field(
        "pool", _T, "SkyPilot's worker pool", advice="noted; num_nodes gives as many equal machines"
    ),
    Field("config", _T, "settings that override SkyPilot's configuration"),
    Field(
        "volumes",
        _T,
        "network volumes",
        FieldUse.ERROR,
        advice="the program would see an empty folder on the machine's own disk",
    ),
    Field(
        "inputs",
        _T,
        "size of the input in GB, for an egress estimate",
        advice="not in the plan yet",
        example=("{s3://bucket/x: 120}",),
    ),
    Field(
        "outputs",
        _T,
        "what is copied back before the machine goes, to `NAME-outputs` in the notebook's folder: "
        "files and folders, or a map to where; "
        "SkyPilot's `{s3://b/x: 20}` is a size in GB",
        example=('[results, "*.ckpt"]', "{~/sky_workdir/out: ./out}"),
    ),
    Field("api_server_access", _T, "access to SkyPilot's API server", FieldUse.NOTE),
    Field(
        "event_callback",
        _T,
        "a local script at each change of state",
        advice="refused unless ignored; write wait: {notify: true}",
    ),
    Field("execution", _T, "how a pipeline's tasks follow each other", FieldUse.NOTE),
    Field("volume_mounts", _T, "internal to SkyPilot", FieldUse.DROPPED),
    Field("file_mounts_mapping", _T, "internal to SkyPilot", FieldUse.DROPPED),
    Field(
        "prefer",
        _T,
        "what comes first among places of equal rank: price, expected time to ready, or price "
        "over the chance of success",
        values=("cheapest", "soonest", "balanced"),
        free=False,
        example=("soonest",),
    ),
    Field(
        "race",
        _T,
        "how many machines may be tried at once; the first that is ready is kept; `false` = one "
        "at a time",
        values=("false",),
        example=("3", "{width: 3, hedge: 20s}", "false"),
    ),
    Field(
        "wait",
        _T,
        "how long to watch for stock once every place was refused",
        values=("false",),
        example=("4h", "{for: 4h, notify: true}"),
    ),
    Field(
        "confirm_above",
        _T,
        "passes over places that are dearer than the first by a share, or above USD an hour; "
        "--yes takes them too",
        values=("false",),
        example=("20%", "$5", "{jump: 20%, hourly: 5, total: 50}", "false"),
    ),
    Field(
        "engine",
        _T,
        "a Dask or Ray cluster on the nodes",
        values=("dask", "ray", "none"),
        example=("dask", "{dask: {workers: gpu, threads: 4}}", "{dask: {memory: 8GB}}", "none"),
    ),
    Field(
        "health",
        _T,
        "the check that a machine is ready, and stays so",
        values=("false",),
        example=(
            "nvidia-smi -L",
            "{command: ./ok.sh, every: 30s, timeout: 10s, failures: 3, on_fail: report}",
            "false",
        ),
    ),
    Field(
        "expose",
        _T,
        "who may reach the ports: `tunnel` (only you), `public`, or a map from port to one of "
        "these",
        values=("tunnel", "public"),
        example=("tunnel", "{8080: public}"),
    ),
    Field(
        "python",
        _T,
        "the interpreter and packages of every node, made before setup: a version, a file, a "
        "list of requirements, or a map",
        example=(
            '"3.12"',
            "requirements.txt",
            '{version: "3.12", requirements: [numpy, "pandas>=2"]}',
            "{lock: uv.lock}",
        ),
    ),
    Field(
        "on_setup_failure",
        _T,
        "what becomes of a cluster whose files, python or setup failed: kept for repair, under "
        "its guards, or ended at once",
        values=("keep", "down"),
        free=False,
        example=("down",),
    ),
)
