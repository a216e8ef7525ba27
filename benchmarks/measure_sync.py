"""Folders to a machine and back, against `tar | ssh` (and rsync, where it is installed) over a
connection that is open, in one run.
"""

from __future__ import annotations

from figures import PEAK, Figure, Setting, figure
from local_cloud import local_cloud, market

TAKES = 5
SMALL_FILES, SMALL_BYTES = 1000, 2000
LARGE_BYTES = 1_000_000_000
LARGE_TAKES = 3
"""Of the gigabyte: each take moves eight of them."""
QUICK_LARGE_BYTES = 20_000_000
MOST_MIB = 64.0
"""That the kernel's process may hold more for a pull and a push of a large file.

Two windows of a channel are 16, and nothing grows with the file.
"""
TARGET = 1.5
"""Times as long as rsync. tar has no target.

It neither compares nor digests, and a file that it was stopped at stays half written.
"""

_CODE = (
    PEAK
    + """
import json, os, shutil, subprocess, sys, tempfile, time
from pathlib import Path

import nbprov
from nbprov.machines.ssh_config import ssh_arguments

takes, large_takes, files, size, large = map(int, sys.argv[1:])
run = nbprov.provision("resources: {accelerators: A100, infra: local}", "bench")
run.launch()
cluster = run.wait()
folder = Path(tempfile.mkdtemp(prefix="nbp-", dir="/tmp"))
ssh = ssh_arguments(nbprov.session().engine, "bench")
open_ssh = [*ssh[:-1], "-S", str(folder / "line"), ssh[-1]]
master = subprocess.Popen([*ssh[:-1], "-M", "-N", "-S", str(folder / "line"), ssh[-1]])
while subprocess.run([*open_ssh[:-1], "-O", "check", ssh[-1]], capture_output=True).returncode:
    time.sleep(0.02)

(folder / "small").mkdir()
for number in range(files):
    place = folder / "small" / f"d{number % 20}"
    place.mkdir(exist_ok=True)
    (place / f"f{number}").write_bytes(os.urandom(size))
(folder / "large").mkdir()
with open(folder / "large" / "big", "wb") as file:
    for _ in range(0, large, 1_000_000):
        file.write(os.urandom(1_000_000))

def remote(command):
    return subprocess.run([*open_ssh, command], check=True, capture_output=True, text=True).stdout

def tar_up(kind, number):
    remote(f"mkdir -p t{number}-{kind}")
    pack = subprocess.Popen(["tar", "-C", str(folder / kind), "-cf", "-", "."], stdout=subprocess.PIPE)
    subprocess.run([*open_ssh, f"tar -xf - -C t{number}-{kind}"], stdin=pack.stdout, check=True)
    assert pack.wait() == 0

def tar_down(kind, number):
    target = folder / f"t{number}-{kind}"
    target.mkdir()
    pack = subprocess.Popen([*open_ssh, f"tar -C t{number}-{kind} -cf - ."], stdout=subprocess.PIPE)
    subprocess.run(["tar", "-xf", "-", "-C", str(target)], stdin=pack.stdout, check=True)
    assert pack.wait() == 0

def rsync(source, target):
    import shlex
    subprocess.run(["rsync", "-a", "-e", shlex.join(open_ssh[:-1]), source, target], check=True)

def rsync_up(kind, number):
    rsync(f"{folder / kind}/", f"{ssh[-1]}:r{number}-{kind}/")

def rsync_down(kind, number):
    rsync(f"{ssh[-1]}:r{number}-{kind}/", f"{folder}/r{number}-{kind}/")

async def sftp(live, kind, target):
    async with live.head.agent.connection._ssh.start_sftp_client() as client:
        await client.put(str(folder / kind), target, recurse=True)

def timed(act):
    start = time.perf_counter()
    act()
    return time.perf_counter() - start

found = {}
def note(name, seconds):
    found.setdefault(name, []).append(seconds)

for number in range(takes):
    for kind in ("small", "large") if number < large_takes else ("small",):
        if kind == "large":
            before = peak_mib()
        note(f"tar up {kind}", timed(lambda: tar_up(kind, number)))
        note(f"ours up {kind}", timed(lambda: cluster.push(folder / kind, f"~/o{number}-{kind}")))
        note(f"ours unchanged {kind}", timed(lambda: cluster.push(folder / kind, f"~/o{number}-{kind}")))
        note(f"tar down {kind}", timed(lambda: tar_down(kind, number)))
        note(f"ours down {kind}", timed(lambda: cluster.pull(f"~/o{number}-{kind}", folder / f"o{number}-{kind}")))
        if shutil.which("rsync"):
            note(f"rsync up {kind}", timed(lambda: rsync_up(kind, number)))
            note(f"rsync down {kind}", timed(lambda: rsync_down(kind, number)))
        if kind == "large":
            note("memory large", peak_mib() - before)
        if kind == "small":
            note("sftp up small", timed(lambda: nbprov.session().wait_remote("bench", lambda live: sftp(live, kind, f"s{number}-{kind}"))))
            same = subprocess.run(["diff", "-r", str(folder / kind), str(folder / f"o{number}-{kind}")], capture_output=True)
            assert same.returncode == 0, same.stdout
        for place in folder.glob(f"?{number}-{kind}"):
            shutil.rmtree(place)
        remote(f"rm -rf ?{number}-{kind}")
subprocess.run([*open_ssh[:-1], "-O", "exit", ssh[-1]], capture_output=True)
master.wait(10)
shutil.rmtree(folder)
cluster.down().wait()
print(json.dumps(found))
"""
)


def measure(setting: Setting) -> list[Figure]:
    """Times as long as `tar | ssh`, take by take; and seconds of the other ways."""
    large = QUICK_LARGE_BYTES if setting.quick else LARGE_BYTES
    with local_cloud(setting.home, market(1, refuses=False)):
        found: dict[str, list[float]] = setting.child(
            _CODE,
            *map(
                str,
                (setting.takes(TAKES), setting.takes(LARGE_TAKES), SMALL_FILES, SMALL_BYTES, large),
            ),
        )
    words = {"small": f"{SMALL_FILES:,} small files", "large": f"a file of {large // 1_000_000} MB"}
    figures = []
    for kind, what in words.items():
        for way, verb in (("up", "push"), ("down", "pull")):
            pairs = zip(found[f"ours {way} {kind}"], found[f"tar {way} {kind}"], strict=True)
            ratios = [ours / tar for ours, tar in pairs]
            figures.append(
                figure(
                    f"a {verb} of {what}, against tar over an open ssh connection", "times", ratios
                )
            )
            if f"rsync {way} {kind}" in found:
                pairs = zip(found[f"ours {way} {kind}"], found[f"rsync {way} {kind}"], strict=True)
                ratios = [ours / rsync for ours, rsync in pairs]
                figures.append(
                    figure(
                        f"a {verb} of {what}, against rsync over an open ssh connection",
                        "times",
                        ratios,
                        TARGET,
                    )
                )
    # The first take alone: later ones begin from its peak.
    figures.append(
        figure(
            f"memory that a push and a pull of {words['large']} add",
            "MiB",
            found["memory large"][:1],
            MOST_MIB,
        )
    )
    for name in (
        "ours up small",
        "ours unchanged small",
        "ours up large",
        "ours unchanged large",
        "sftp up small",
        "tar up small",
        "tar up large",
    ):
        what = f"{name.rsplit(' ', 1)[0].replace('ours', 'sync')}, {words[name.rsplit(' ', 1)[1]]}"
        figures.append(figure(what, "ms", [seconds * 1000 for seconds in found[name]]))
    return figures
