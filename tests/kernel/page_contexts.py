"""Cells that bring about what the pages take for granted before a block of theirs."""

DOWN = "%nbprov down --all"
GPU = "%%provision dev --yes --wait\nresources: {accelerators: A100, infra: local}"
LAUNCH = "%%provision dev --yes --wait\nresources: {cpus: 2, infra: local}"
PAIR = "%%provision pair --yes --wait\nresources: {cpus: 2, infra: local}\nnum_nodes: 2"
SPEC = "import nbprov; spec = 'resources: {cpus: 2, infra: local}'"
TORCH = """%%on dev
import subprocess, sys, types
torch = sys.modules["torch"] = types.ModuleType("torch")
command = ["nvidia-smi", "-L"]
say = lambda: subprocess.check_output(command, text=True)
torch.cuda = types.SimpleNamespace(get_device_name=say)
"""
TRAIN = """%%on dev --bash
mkdir -p experiments
cat > train.py <<'END'
import os, sys
print("trains", *sys.argv[1:], "with", os.environ.get("LR"))
END
cp train.py evaluate.py
cp train.py experiments
"""
SERVERS = """%%on dev --bash
mkdir -p site && echo "a page of the machine" > site/index.html && cd site
for port in 6006 8080; do
  nohup setsid python3 -m http.server --bind 127.0.0.1 $port > ../log-$port 2>&1 &
  until python3 -c "import socket; socket.create_connection(('127.0.0.1', $port))" 2> /dev/null
  do sleep 0.05; done
done
"""
READS = """import nbprov, requests
get = requests.get
requests.get = lambda url: print(get(url).text)
"""
FILES = """%%on dev --bash --nodes all
mkdir -p /data/out notes src
echo 1 > /data/out/figures.csv
echo 2 > notes/theirs.txt
"""
HERE = """from pathlib import Path
for name in ("src/code.py", "notes/ours.txt"):
    Path(name).parent.mkdir(exist_ok=True)
    Path(name).write_text("x = 1")
"""
PROJECT = """from pathlib import Path
import os
Path("project").mkdir()
os.chdir("project")
Path("requirements.txt").write_text("")
Path("train.py").write_text("import os, sys; print(*sys.argv[1:], 'run', os.environ['RUN_ID'])")
os.environ["HF_TOKEN"] = "a-token-of-nobody"
lr = 3e-4
"""

OUTPUTS = """%%provision dev --yes --wait
resources: {cpus: 2, infra: local}
outputs: [loss.csv]
setup: date > loss.csv
"""

TABLE = """import pandas as pd
import dask.dataframe as dd
table = dd.from_pandas(pd.DataFrame({"key": [1, 1, 2], "x": [1.0, 3.0, 5.0]}), npartitions=3)
"""
