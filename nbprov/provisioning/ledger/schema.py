"""The ledger's tables, as numbered migrations.

A migration that has been released is never edited; a change is a new one. Columns called `reason`,
`text`, `message` and `error` hold sentences for people: no program reads them, and what programs
need of them has columns of its own.
"""

from __future__ import annotations

MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

    CREATE TABLE runs (
        run_id TEXT PRIMARY KEY,
        name TEXT NOT NULL,
        state TEXT NOT NULL,
        spec TEXT NOT NULL,              -- the cell's text, secrets blotted out
        folder TEXT NOT NULL,            -- what relative paths of the spec are relative to
        outputs_to TEXT NOT NULL,        -- the folder for outputs that Launch agreed to
        race INTEGER NOT NULL,
        consent INTEGER NOT NULL,        -- micros an hour that Launch consented to
        message TEXT NOT NULL DEFAULT '',
        error TEXT NOT NULL DEFAULT '',
        cancelled INTEGER NOT NULL DEFAULT 0,
        wait_deadline REAL,              -- until when stock is waited for
        lease_holder TEXT,
        lease_expires REAL,              -- to be shown; no kernel believes it
        lease_renewed REAL,              -- on the clock of that start of the computer
        lease_boot TEXT,
        created REAL NOT NULL,
        updated REAL NOT NULL
    ) WITHOUT ROWID;

    CREATE TABLE launches (
        token TEXT PRIMARY KEY,
        run_id TEXT NOT NULL REFERENCES runs (run_id),
        number INTEGER NOT NULL,
        slot INTEGER NOT NULL,           -- race slot
        cloud TEXT NOT NULL,
        account TEXT NOT NULL,
        state TEXT NOT NULL,             -- AttemptState
        candidate TEXT NOT NULL,
        launch TEXT NOT NULL,            -- the request as a template, without key material
        keys TEXT NOT NULL,              -- hash of the key files
        hourly INTEGER NOT NULL,         -- price frozen at launch, micros, all nodes
        operation TEXT,
        ids TEXT NOT NULL DEFAULT '[]',
        failure TEXT,
        deadline REAL,
        created REAL NOT NULL,
        ended REAL
    ) WITHOUT ROWID;
    CREATE INDEX launches_by_run ON launches (run_id, number);
    CREATE INDEX launches_live ON launches (state) WHERE state NOT IN ('refused', 'gone', 'absent');

    CREATE TABLE attempts (
        id INTEGER PRIMARY KEY,
        token TEXT NOT NULL REFERENCES launches (token),
        sent REAL NOT NULL,
        answered REAL,
        outcome TEXT,                    -- accepted, refused, unknown, cancelled
        cause TEXT, code TEXT, message TEXT
    );
    CREATE INDEX attempts_by_token ON attempts (token);

    CREATE TABLE clusters (
        cluster_id TEXT PRIMARY KEY,
        name TEXT NOT NULL,
        run_id TEXT NOT NULL REFERENCES runs (run_id),
        token TEXT NOT NULL REFERENCES launches (token),
        state TEXT NOT NULL,             -- ClusterState
        desired_state TEXT NOT NULL,     -- DesiredState
        candidate TEXT NOT NULL,
        reason TEXT NOT NULL DEFAULT '',
        confirmed REAL,
        started REAL NOT NULL,
        ended REAL
    ) WITHOUT ROWID;
    CREATE UNIQUE INDEX clusters_live_name ON clusters (name) WHERE state <> 'ended';

    CREATE TABLE instances (
        cloud TEXT NOT NULL,
        id TEXT NOT NULL,
        token TEXT NOT NULL,
        data TEXT NOT NULL,              -- Instance as last listed
        state TEXT NOT NULL,
        first_seen REAL NOT NULL,
        last_seen REAL NOT NULL,
        ended REAL,
        PRIMARY KEY (cloud, id)
    ) WITHOUT ROWID;
    CREATE INDEX instances_by_token ON instances (token);

    CREATE TABLE side_objects (
        cloud TEXT NOT NULL, region TEXT NOT NULL, kind TEXT NOT NULL, id TEXT NOT NULL,
        token TEXT NOT NULL, shared INTEGER NOT NULL, state TEXT NOT NULL, seen REAL NOT NULL,
        since REAL NOT NULL, reason TEXT NOT NULL DEFAULT '',
        PRIMARY KEY (cloud, region, kind, id)
    ) WITHOUT ROWID;

    CREATE TABLE price_segments (
        id INTEGER PRIMARY KEY,
        run_id TEXT NOT NULL,
        token TEXT NOT NULL,
        instance_id TEXT NOT NULL,
        kind TEXT NOT NULL,              -- compute, disk
        hourly INTEGER NOT NULL,
        started REAL NOT NULL,
        ended REAL
    );
    CREATE INDEX price_segments_by_run ON price_segments (run_id);
    CREATE UNIQUE INDEX price_segments_open ON price_segments (token, instance_id, kind)
        WHERE ended IS NULL;

    CREATE TABLE blocks (
        pattern TEXT PRIMARY KEY,
        data TEXT NOT NULL,
        repeats INTEGER NOT NULL,
        since REAL NOT NULL,
        expires REAL NOT NULL
    ) WITHOUT ROWID;

    CREATE TABLE guards (
        run_id TEXT NOT NULL, node INTEGER NOT NULL, config TEXT NOT NULL, status TEXT NOT NULL,
        reported REAL NOT NULL,
        PRIMARY KEY (run_id, node)
    ) WITHOUT ROWID;

    CREATE TABLE observations (
        id INTEGER PRIMARY KEY,
        at REAL NOT NULL,
        kind TEXT NOT NULL,              -- attempt, probe
        cloud TEXT NOT NULL, account TEXT NOT NULL, region TEXT NOT NULL, zone TEXT NOT NULL,
        instance_type TEXT NOT NULL, market TEXT NOT NULL, count INTEGER NOT NULL,
        outcome TEXT NOT NULL,           -- accepted, or the cause; for probes what the cloud said
        seconds REAL
    );
    CREATE INDEX observations_by_offer ON observations
        (cloud, region, zone, instance_type, market, at);
    CREATE INDEX observations_accepted ON observations (cloud, id)
        WHERE outcome = 'accepted' AND kind = 'attempt';
    CREATE INDEX observations_attempts ON observations (at) WHERE kind = 'attempt';
    CREATE INDEX observations_probes ON observations (at) WHERE kind = 'probe';

    CREATE TABLE events (
        id INTEGER PRIMARY KEY,
        at REAL NOT NULL,
        run_id TEXT NOT NULL,
        token TEXT NOT NULL,
        kind TEXT NOT NULL,              -- EventKind
        data TEXT NOT NULL,              -- what programs read beside the kind, JSON
        text TEXT NOT NULL
    );
    CREATE INDEX events_by_run ON events (run_id, id);

    CREATE TABLE jobs (
        run_id TEXT NOT NULL, job_id TEXT NOT NULL, kind TEXT NOT NULL, command TEXT NOT NULL,
        state TEXT NOT NULL,
        exit_code INTEGER, started REAL NOT NULL, ended REAL,
        PRIMARY KEY (run_id, job_id)
    ) WITHOUT ROWID;

    CREATE TABLE replacements (
        token TEXT NOT NULL REFERENCES launches (token),
        number INTEGER NOT NULL,         -- Launch.part
        run_id TEXT NOT NULL REFERENCES runs (run_id),
        node INTEGER NOT NULL,
        state TEXT NOT NULL,             -- AttemptState
        launch TEXT NOT NULL,            -- the request as a template, without key material
        operation TEXT,
        instance_id TEXT NOT NULL DEFAULT '',
        failure TEXT,
        spent INTEGER NOT NULL,          -- what the run had cost, micros
        deadline REAL NOT NULL,
        created REAL NOT NULL,
        ended REAL,
        PRIMARY KEY (token, number)
    ) WITHOUT ROWID;
    CREATE UNIQUE INDEX replacements_open ON replacements (token)
        WHERE state NOT IN ('ready', 'refused', 'gone', 'absent');
    """,
    # Without these, what is asked at each change reads every launch that ever was.
    """
    CREATE INDEX runs_by_creation ON runs (created);
    CREATE INDEX runs_by_name ON runs (name, created);
    CREATE INDEX runs_under_way ON runs (state)
        WHERE state IN ('launching', 'waiting', 'cancelling');
    CREATE INDEX runs_over ON runs (updated) WHERE state IN ('cancelled', 'failed', 'ended');
    CREATE INDEX launches_by_cloud ON launches (cloud, created);
    CREATE INDEX launches_by_creation ON launches (created);
    CREATE INDEX launches_doubted ON launches (cloud, ended) WHERE state = 'absent';
    CREATE INDEX clusters_by_run ON clusters (run_id);
    CREATE INDEX clusters_by_token ON clusters (token);
    CREATE INDEX clusters_by_name ON clusters (name);
    CREATE INDEX clusters_by_end ON clusters (ended);
    CREATE INDEX price_segments_by_token ON price_segments (token);
    CREATE INDEX price_segments_by_end ON price_segments (ended);
    """,
)
