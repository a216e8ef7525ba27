-- What the first release wrote of a cluster that runs, dev, and of one that is stopped, rest.
PRAGMA user_version = 1;
PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO meta VALUES('owner','1a80e1677fbf44d8');
CREATE TABLE runs (
        run_id TEXT PRIMARY KEY,
        name TEXT NOT NULL,
        state TEXT NOT NULL,
        spec TEXT NOT NULL,              -- the cell's text, secrets blotted out
        envs TEXT NOT NULL,              -- values given by the caller for envs the spec leaves open
        folder TEXT NOT NULL,            -- what relative paths of the spec are relative to
        race INTEGER NOT NULL,
        consent INTEGER NOT NULL,        -- micros an hour that Launch consented to
        message TEXT NOT NULL DEFAULT '',
        error TEXT NOT NULL DEFAULT '',
        cancelled INTEGER NOT NULL DEFAULT 0,
        wait_deadline REAL,              -- until when stock is waited for
        lease_holder TEXT,
        lease_expires REAL,
        created REAL NOT NULL,
        updated REAL NOT NULL
    ) WITHOUT ROWID;
INSERT INTO runs VALUES('01fd1e4b7db44dd78605fd013f3162d3','rest','ready',replace('# the oldest form of a cell\nresources: {cloud: local, instance_type: small, use_spot: false, autostop: {idle_minutes: 45, down: false}}\nmax_lifetime: 10h\nbudget: $5\nenvs: {MODEL: small}\nsetup: echo set up\nrun: echo $MODEL\n','\n',char(10)),'{}','/home/ann/notebooks',1,100000,'','',0,NULL,NULL,NULL,1795402032.4166891575,1795402033.9416346549);
INSERT INTO runs VALUES('28fa96a3f2453a136b6e91482fb1582c','dev','ready',replace('# the oldest form of a cell\nresources: {cloud: local, instance_type: small, use_spot: false, autostop: {idle_minutes: 45, down: false}}\nmax_lifetime: 10h\nbudget: $5\nenvs: {MODEL: small}\nsetup: echo set up\nrun: echo $MODEL\n','\n',char(10)),'{}','/home/ann/notebooks',1,100000,'','',0,NULL,NULL,NULL,1795402030.0692355632,1795402032.2454600334);
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
INSERT INTO launches VALUES('0fd5a0a7936064dec2ff276309c89625','01fd1e4b7db44dd78605fd013f3162d3',1,0,'local','test','ready','{"offer":{"cloud":"local","region":"here","zone":"here-a","instance_type":"small","accelerator":"","accelerator_count":0.0,"vcpus":2.0,"memory_gib":4.0,"market":"on-demand","hourly":100000,"quota_family":"cpu","accelerator_memory_gib":null,"arch":"","source":"simulated","as_of":"2026-11-23"},"request":{"index":0,"tier":0,"origin":{"path":"resources","line":2},"cloud":"local","region":"","zone":"","instance_type":"small","accelerator":null,"cpus":null,"memory":null,"market":"on-demand","disk_gb":256,"ports":[],"labels":[],"max_hourly":null},"rank":0,"count":1,"account":"test","success":null,"why":"cheapest"}','{"token":"0fd5a0a7936064dec2ff276309c89625","owner":"1a80e1677fbf44d8","run_id":"01fd1e4b7db44dd78605fd013f3162d3","name":"rest","candidate":{"offer":{"cloud":"local","region":"here","zone":"here-a","instance_type":"small","accelerator":"","accelerator_count":0.0,"vcpus":2.0,"memory_gib":4.0,"market":"on-demand","hourly":100000,"quota_family":"cpu","accelerator_memory_gib":null,"arch":"","source":"simulated","as_of":"2026-11-23"},"request":{"index":0,"tier":0,"origin":{"path":"resources","line":2},"cloud":"local","region":"","zone":"","instance_type":"small","accelerator":null,"cpus":null,"memory":null,"market":"on-demand","disk_gb":256,"ports":[],"labels":[],"max_hourly":null},"rank":0,"count":1,"account":"test","success":null,"why":"cheapest"},"count":1,"disk_gb":256,"image":"","tags":{"nbprov-owner":"1a80e1677fbf44d8","nbprov-token":"0fd5a0a7936064dec2ff276309c89625","nbprov-run":"01fd1e4b7db44dd78605fd013f3162d3","nbprov-name":"rest"},"user_data_template":"#!/bin/sh\n# nbprov: host key, login key, boot guard.\nset -u\numask 077\nif [ -z \"${HOME:-}\" ]; then HOME=$(getent passwd \"$(id -u)\" | cut -d: -f6); fi\nHOME=${HOME:-/root}; export HOME\nhost_key=${NBPROV_HOST_KEY:-/etc/ssh/ssh_host_ed25519_key}\nlogins=${NBPROV_AUTHORIZED_KEYS:-$HOME/.ssh/authorized_keys}\nfolder=$HOME/.nbprov\nmkdir -p \"$(dirname \"$host_key\")\" \"$(dirname \"$logins\")\" \"$folder\"\ncat >\"$host_key.new\" <<''NBPROV_END''\n@@host_key@@\nNBPROV_END\nprintf ''%s\\n'' ''@@host_public@@'' >\"$host_key.pub.new\"\nchmod 644 \"$host_key.pub.new\"\nmv -f \"$host_key.new\" \"$host_key\" && mv -f \"$host_key.pub.new\" \"$host_key.pub\"\ntouch \"$logins\" && chmod 600 \"$logins\"\nlogin=''@@authorized_key@@''\nif ! grep -qxF \"$login\" \"$logins\"; then\n  if [ -s \"$logins\" ] && [ -n \"$(tail -c1 \"$logins\")\" ]; then echo >>\"$logins\"; fi\n  printf ''%s\\n'' \"$login\" >>\"$logins\"\nfi\nif [ -z \"${NBPROV_HOST_KEY:-}\" ]; then\n  if [ -d /run/systemd/system ]; then\n    for unit in ssh sshd; do\n      if systemctl is-active --quiet \"$unit\"; then systemctl restart \"$unit\"; fi\n    done\n  elif [ -s /run/sshd.pid ]; then\n    kill -HUP \"$(cat /run/sshd.pid)\"\n  fi\nfi\nrm -f \"$folder/agent.started\"\necho \"$(date +%s).$$\" >\"$folder/boot.id\"\nown=$(command -v setsid || true)\n$own sh -c ''sleep 1800; while [ ! -e \"$1\" ]; do nbprov-poweroff terminate ''\"''\"''no agent was started in time''\"''\"''\nsleep 60; done'' nbprov-boot-guard \"$folder/agent.started\" </dev/null >/dev/null 2>&1 &\nexit 0\n","public_key":"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPGGwb1IjpCG2V48kwyDbTV9GGkAk0+A4CTHsyUdkhYw nbprov","ports":[],"on_shutdown":"stop","terminate_after":36000.0,"answer_by":1795402062.4260068}','SHA256:KyCpkAfCXBwCCOFfJlg41HmkKX+9/2nPH2ArMOjpDaI',100000,'{"cloud":"local","token":"0fd5a0a7936064dec2ff276309c89625","id":"op-017bcc1ef7a3","data":{}}','["i-917cc84c4cc1"]',NULL,1795402062.4260067939,1795402032.426006794,NULL);
INSERT INTO launches VALUES('5be88c558b90246b21d38bd94475e55b','28fa96a3f2453a136b6e91482fb1582c',1,0,'local','test','ready','{"offer":{"cloud":"local","region":"here","zone":"here-a","instance_type":"small","accelerator":"","accelerator_count":0.0,"vcpus":2.0,"memory_gib":4.0,"market":"on-demand","hourly":100000,"quota_family":"cpu","accelerator_memory_gib":null,"arch":"","source":"simulated","as_of":"2026-11-23"},"request":{"index":0,"tier":0,"origin":{"path":"resources","line":2},"cloud":"local","region":"","zone":"","instance_type":"small","accelerator":null,"cpus":null,"memory":null,"market":"on-demand","disk_gb":256,"ports":[],"labels":[],"max_hourly":null},"rank":0,"count":1,"account":"test","success":null,"why":"cheapest"}','{"token":"5be88c558b90246b21d38bd94475e55b","owner":"1a80e1677fbf44d8","run_id":"28fa96a3f2453a136b6e91482fb1582c","name":"dev","candidate":{"offer":{"cloud":"local","region":"here","zone":"here-a","instance_type":"small","accelerator":"","accelerator_count":0.0,"vcpus":2.0,"memory_gib":4.0,"market":"on-demand","hourly":100000,"quota_family":"cpu","accelerator_memory_gib":null,"arch":"","source":"simulated","as_of":"2026-11-23"},"request":{"index":0,"tier":0,"origin":{"path":"resources","line":2},"cloud":"local","region":"","zone":"","instance_type":"small","accelerator":null,"cpus":null,"memory":null,"market":"on-demand","disk_gb":256,"ports":[],"labels":[],"max_hourly":null},"rank":0,"count":1,"account":"test","success":null,"why":"cheapest"},"count":1,"disk_gb":256,"image":"","tags":{"nbprov-owner":"1a80e1677fbf44d8","nbprov-token":"5be88c558b90246b21d38bd94475e55b","nbprov-run":"28fa96a3f2453a136b6e91482fb1582c","nbprov-name":"dev"},"user_data_template":"#!/bin/sh\n# nbprov: host key, login key, boot guard.\nset -u\numask 077\nif [ -z \"${HOME:-}\" ]; then HOME=$(getent passwd \"$(id -u)\" | cut -d: -f6); fi\nHOME=${HOME:-/root}; export HOME\nhost_key=${NBPROV_HOST_KEY:-/etc/ssh/ssh_host_ed25519_key}\nlogins=${NBPROV_AUTHORIZED_KEYS:-$HOME/.ssh/authorized_keys}\nfolder=$HOME/.nbprov\nmkdir -p \"$(dirname \"$host_key\")\" \"$(dirname \"$logins\")\" \"$folder\"\ncat >\"$host_key.new\" <<''NBPROV_END''\n@@host_key@@\nNBPROV_END\nprintf ''%s\\n'' ''@@host_public@@'' >\"$host_key.pub.new\"\nchmod 644 \"$host_key.pub.new\"\nmv -f \"$host_key.new\" \"$host_key\" && mv -f \"$host_key.pub.new\" \"$host_key.pub\"\ntouch \"$logins\" && chmod 600 \"$logins\"\nlogin=''@@authorized_key@@''\nif ! grep -qxF \"$login\" \"$logins\"; then\n  if [ -s \"$logins\" ] && [ -n \"$(tail -c1 \"$logins\")\" ]; then echo >>\"$logins\"; fi\n  printf ''%s\\n'' \"$login\" >>\"$logins\"\nfi\nif [ -z \"${NBPROV_HOST_KEY:-}\" ]; then\n  if [ -d /run/systemd/system ]; then\n    for unit in ssh sshd; do\n      if systemctl is-active --quiet \"$unit\"; then systemctl restart \"$unit\"; fi\n    done\n  elif [ -s /run/sshd.pid ]; then\n    kill -HUP \"$(cat /run/sshd.pid)\"\n  fi\nfi\nrm -f \"$folder/agent.started\"\necho \"$(date +%s).$$\" >\"$folder/boot.id\"\nown=$(command -v setsid || true)\n$own sh -c ''sleep 1800; while [ ! -e \"$1\" ]; do nbprov-poweroff terminate ''\"''\"''no agent was started in time''\"''\"''\nsleep 60; done'' nbprov-boot-guard \"$folder/agent.started\" </dev/null >/dev/null 2>&1 &\nexit 0\n","public_key":"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAINEGJ7OXqLWWQYs3WnZ3BMEJEBN24/XmywCEFntj8xwc nbprov","ports":[],"on_shutdown":"stop","terminate_after":36000.0,"answer_by":1795402060.1909063}','SHA256:6PDb5xrHHUJpRVu93Dw9NhfDFMKQ/4Juu/BhNv/GZFQ',100000,'{"cloud":"local","token":"5be88c558b90246b21d38bd94475e55b","id":"op-c6bd7098245a","data":{}}','["i-5b2271146a9e"]',NULL,1795402060.1909062862,1795402030.1909062862,NULL);
CREATE TABLE attempts (
        id INTEGER PRIMARY KEY,
        token TEXT NOT NULL REFERENCES launches (token),
        sent REAL NOT NULL,
        answered REAL,
        outcome TEXT,                    -- accepted, refused, unknown, cancelled
        cause TEXT, code TEXT, message TEXT
    );
INSERT INTO attempts VALUES(1,'5be88c558b90246b21d38bd94475e55b',1795402030.191977024,1795402030.2749755382,'accepted',NULL,NULL,NULL);
INSERT INTO attempts VALUES(2,'0fd5a0a7936064dec2ff276309c89625',1795402032.4264950751,1795402032.492863655,'accepted',NULL,NULL,NULL);
CREATE TABLE clusters (
        cluster_id TEXT PRIMARY KEY,
        name TEXT NOT NULL,
        run_id TEXT NOT NULL REFERENCES runs (run_id),
        token TEXT NOT NULL REFERENCES launches (token),
        state TEXT NOT NULL,             -- ClusterState
        candidate TEXT NOT NULL,
        reason TEXT NOT NULL DEFAULT '',
        confirmed REAL,
        started REAL NOT NULL,
        ended REAL
    ) WITHOUT ROWID;
INSERT INTO clusters VALUES('01fd1e4b7db44dd78605fd013f3162d3','rest','01fd1e4b7db44dd78605fd013f3162d3','0fd5a0a7936064dec2ff276309c89625','stopped','{"offer":{"cloud":"local","region":"here","zone":"here-a","instance_type":"small","accelerator":"","accelerator_count":0.0,"vcpus":2.0,"memory_gib":4.0,"market":"on-demand","hourly":100000,"quota_family":"cpu","accelerator_memory_gib":null,"arch":"","source":"simulated","as_of":"2026-11-23"},"request":{"index":0,"tier":0,"origin":{"path":"resources","line":2},"cloud":"local","region":"","zone":"","instance_type":"small","accelerator":null,"cpus":null,"memory":null,"market":"on-demand","disk_gb":256,"ports":[],"labels":[],"max_hourly":null},"rank":0,"count":1,"account":"test","success":null,"why":"cheapest"}','you stopped it',1795402034.1634366512,1795402033.9416346549,NULL);
INSERT INTO clusters VALUES('28fa96a3f2453a136b6e91482fb1582c','dev','28fa96a3f2453a136b6e91482fb1582c','5be88c558b90246b21d38bd94475e55b','running','{"offer":{"cloud":"local","region":"here","zone":"here-a","instance_type":"small","accelerator":"","accelerator_count":0.0,"vcpus":2.0,"memory_gib":4.0,"market":"on-demand","hourly":100000,"quota_family":"cpu","accelerator_memory_gib":null,"arch":"","source":"simulated","as_of":"2026-11-23"},"request":{"index":0,"tier":0,"origin":{"path":"resources","line":2},"cloud":"local","region":"","zone":"","instance_type":"small","accelerator":null,"cpus":null,"memory":null,"market":"on-demand","disk_gb":256,"ports":[],"labels":[],"max_hourly":null},"rank":0,"count":1,"account":"test","success":null,"why":"cheapest"}','',1795402032.2454600334,1795402032.2454600334,NULL);
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
INSERT INTO instances VALUES('local','i-5b2271146a9e','5be88c558b90246b21d38bd94475e55b','{"cloud":"local","id":"i-5b2271146a9e","token":"5be88c558b90246b21d38bd94475e55b","owner":"1a80e1677fbf44d8","place":{"cloud":"local","region":"here","zone":"here-a"},"instance_type":"small","state":"running","host":"127.0.116.36","port":51715,"private_host":"127.0.116.36","node":0,"name":"dev-0","spot":false,"launched_at":1795402030.2209427,"reason":"","hourly":100000}','running',1795402030.3176980018,1795402030.4969174862,NULL);
INSERT INTO instances VALUES('local','i-917cc84c4cc1','0fd5a0a7936064dec2ff276309c89625','{"cloud":"local","id":"i-917cc84c4cc1","token":"0fd5a0a7936064dec2ff276309c89625","owner":"1a80e1677fbf44d8","place":{"cloud":"local","region":"here","zone":"here-a"},"instance_type":"small","state":"stopped","host":"","port":0,"private_host":"","node":0,"name":"rest-0","spot":false,"launched_at":1795402032.4309645,"reason":"stopped","hourly":100000}','stopped',1795402032.4978463649,1795402034.1557955742,NULL);
CREATE TABLE side_objects (
        cloud TEXT NOT NULL, region TEXT NOT NULL, kind TEXT NOT NULL, id TEXT NOT NULL,
        token TEXT NOT NULL, shared INTEGER NOT NULL, state TEXT NOT NULL, seen REAL NOT NULL,
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
INSERT INTO price_segments VALUES(1,'28fa96a3f2453a136b6e91482fb1582c','5be88c558b90246b21d38bd94475e55b','i-5b2271146a9e','compute',100000,1795402030.2748155594,NULL);
INSERT INTO price_segments VALUES(2,'01fd1e4b7db44dd78605fd013f3162d3','0fd5a0a7936064dec2ff276309c89625','i-917cc84c4cc1','compute',100000,1795402032.4927766322,1795402034.1557955742);
CREATE TABLE blocks (
        pattern TEXT PRIMARY KEY,
        data TEXT NOT NULL,
        repeats INTEGER NOT NULL,
        since REAL NOT NULL,
        expires REAL NOT NULL
    ) WITHOUT ROWID;
CREATE TABLE guards (
        run_id TEXT NOT NULL, node INTEGER NOT NULL, config TEXT NOT NULL, status TEXT NOT NULL, reported REAL NOT NULL,
        PRIMARY KEY (run_id, node)
    ) WITHOUT ROWID;
INSERT INTO guards VALUES('01fd1e4b7db44dd78605fd013f3162d3',0,'{"poweroff": "nbprov-poweroff {mode} {reason}", "wait_for": "jobs_and_ssh", "mode": "stop", "idle_seconds": 2700.0, "max_lifetime_seconds": 36000.0, "budget": {"hourly_micros": 100000, "limit_micros": 5000000, "spent_micros": 11, "reserve_seconds": 180.0}}','{}',1795402033.9411101341);
INSERT INTO guards VALUES('28fa96a3f2453a136b6e91482fb1582c',0,'{"poweroff": "nbprov-poweroff {mode} {reason}", "wait_for": "jobs_and_ssh", "mode": "stop", "idle_seconds": 2700.0, "max_lifetime_seconds": 36000.0, "budget": {"hourly_micros": 100000, "limit_micros": 5000000, "spent_micros": 22, "reserve_seconds": 180.0}}','{}',1795402032.2425205707);
CREATE TABLE observations (
        id INTEGER PRIMARY KEY,
        at REAL NOT NULL,
        kind TEXT NOT NULL,              -- attempt, probe
        cloud TEXT NOT NULL, account TEXT NOT NULL, region TEXT NOT NULL, zone TEXT NOT NULL,
        instance_type TEXT NOT NULL, market TEXT NOT NULL, count INTEGER NOT NULL,
        outcome TEXT NOT NULL,           -- accepted, or the cause; for probes what the cloud said
        seconds REAL
    );
CREATE TABLE events (
        id INTEGER PRIMARY KEY, at REAL NOT NULL, run_id TEXT NOT NULL, token TEXT NOT NULL, kind TEXT NOT NULL, text TEXT NOT NULL
    );
INSERT INTO events VALUES(7,1795402032.2487428188,'28fa96a3f2453a136b6e91482fb1582c','','run','ready: attempt 1  local/here/here-a  small  ready');
INSERT INTO events VALUES(14,1795402033.947527647,'01fd1e4b7db44dd78605fd013f3162d3','','run','ready: attempt 1  local/here/here-a  small  ready');
INSERT INTO events VALUES(15,1795402034.1685547828,'01fd1e4b7db44dd78605fd013f3162d3','0fd5a0a7936064dec2ff276309c89625','cluster','stopped: you stopped it');
CREATE TABLE jobs (
        run_id TEXT NOT NULL, job_id TEXT NOT NULL, kind TEXT NOT NULL, command TEXT NOT NULL, state TEXT NOT NULL,
        exit_code INTEGER, started REAL NOT NULL, ended REAL,
        PRIMARY KEY (run_id, job_id)
    ) WITHOUT ROWID;
INSERT INTO jobs VALUES('01fd1e4b7db44dd78605fd013f3162d3','run','run','echo $MODEL','running',NULL,1795402034.0212678909,NULL);
INSERT INTO jobs VALUES('01fd1e4b7db44dd78605fd013f3162d3','setup','setup','echo set up','ended',0,1795402033.9557714462,1795402034.0159041881);
INSERT INTO jobs VALUES('28fa96a3f2453a136b6e91482fb1582c','run','run','echo $MODEL','running',NULL,1795402032.369534254,NULL);
INSERT INTO jobs VALUES('28fa96a3f2453a136b6e91482fb1582c','setup','setup','echo set up','ended',0,1795402032.2563145161,1795402032.3609917163);
CREATE INDEX launches_by_run ON launches (run_id, number);
CREATE INDEX launches_live ON launches (state) WHERE state NOT IN ('refused', 'gone', 'absent');
CREATE INDEX attempts_by_token ON attempts (token);
CREATE UNIQUE INDEX clusters_live_name ON clusters (name) WHERE state <> 'ended';
CREATE INDEX instances_by_token ON instances (token);
CREATE INDEX price_segments_by_run ON price_segments (run_id);
CREATE UNIQUE INDEX price_segments_open ON price_segments (token, instance_id, kind) WHERE ended IS NULL;
CREATE INDEX observations_by_offer ON observations (cloud, region, zone, instance_type, market, at);
CREATE INDEX events_by_run ON events (run_id, id);
COMMIT;
