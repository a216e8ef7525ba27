"""Only names of data are kept by what comes from a machine."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbprov.remote.sync.data_names import ENDINGS, NAMES, TEXTS
from nbprov.remote.sync.inert_names import inert_folder, inert_name

LIVE_NAMES = """
    test_log.txt libz.so.1 libcuda.so.1 lib.so.6 main.tf main.tf.json x.auto.tfvars.json
    node_modules/semver node_modules/lp/index.node Directory.Build.props a.csproj a.vcxproj a.sln
    nextflow.config web.config app.config startup.m a.m profile.do autoexec.sas
    CMakeUserPresets.json CMakePresets.json CMakeLists.txt CMakeCache.txt conanfile.txt
    helmfile.yaml docker-bake.hcl docker-bake.override.json terragrunt.hcl a.gemspec config.ru
    rust-toolchain hie.yaml cabal.project a.hs dune jest.config.json babel.config.json nodemon.json
    firebase.json x.elc a.scf autorun.inf x.library-ms a.sublime-project a.iml a.ipr a.nbi a.ru
    a.rake a.smk a.csx a.targets a.node cloudbuild.yaml invoke.yaml a.sql a.jupyterlab-workspace
    jupyter_server_config.json ipython_config.json overrides.json wandb/settings CVS/Root
    project.clj a.cljs a.f90 a.cu a.c BUCK TARGETS BSDmakefile dodo.py fabfile.py a.awk a.inf a.jse
    a.wsh a.mht a.xht pip.conf setup.cfg uv.toml Makefile makefile compose.yml compose.override.yml
    package.json .envrc .RData HEAD x.py x.PY x.sh x.R x.jl numpy.cpython-312-x86_64-linux-gnu.so
    tool a x.csv.py AGENTS.md CLAUDE.md GEMINI.md QWEN.md BUILD.star .mcp.json
    test_api.tavern.yaml TEST_x.TXT test_x.rst
"""
DATA_NAMES = """
    scores.csv run.1/model.safetensors.index.json pytorch_model.bin.index.json model-00001-of-2.bin
    events.out.tfevents.1700000000.box.1234.0 events.out.tfevents.17.my-box.local.3.1.v2
    model.ckpt-10.data-00000-of-00001 checkpoint part-0000.snappy.parquet _SUCCESS x.zarr/0.1
    x.zarr/.zarray c/0/0 LICENSE README.md requirements.txt vocab.txt merges.txt spiece.model
    config.json tokenizer_config.json config.yaml params.yml trainer_state.json train.log
    train.log.1 slurm-17.out reads_R1.fastq.gz brain.nii.gz a.vcf.gz.tbi OUTCAR x.root x.h5ad
    fig.png fig.svg report.html executed.ipynb x.jl.txt events.2024-01-01.json gene.counts.txt
    weights.PT data.mdb last.ckpt metrics.jsonl table.xlsx data.mat meta.json contest.txt
    scan.jp2 x.pgm x.ppm x.pbm x.pnm night.edf x.bdf raw.fif x.nwb calls.vcf.bgz
"""
LIVE, DATA = LIVE_NAMES.split(), DATA_NAMES.split()


@pytest.mark.parametrize("name", LIVE)
def test_what_programs_take_gets_another_name(name: str) -> None:
    assert inert_name(f"out/{name}") not in (f"out/{name}", name)


@pytest.mark.parametrize("name", DATA)
def test_data_keep_their_names(name: str) -> None:
    assert inert_name(f"out/{name}") == f"out/{name}"


KEPT = re.compile(
    rf"(?!\.).+({'|'.join(map(re.escape, (*ENDINGS.split(), *TEXTS)))})|\d+(\.\d+)*"
    r"|.+\.data-\d+-of-\d+|.+\.log\.\d+|events\.out\.tfevents\..+\.(\d+|v2)"
    r"|\.(zarray|zgroup|zattrs|zmetadata|metadata|hydra)",
    re.ASCII,
)
LETTERS = st.text(alphabet="abehlmnoprstvyzAKSſ0129._-~ \u200d\u0130", min_size=1, max_size=12)
PARTS = st.one_of(LETTERS, st.sampled_from((*LIVE, *DATA, "py", "so", "PY", "txt", "1", "test")))


@given(st.lists(PARTS, min_size=1, max_size=4), st.sampled_from(["", ".", "/", " "]))
def test_no_name_is_kept_but_one_of_data(parts: list[str], between: str) -> None:
    name = between.join(parts)
    stored = inert_name(name)
    last = name.rpartition("/")[2]
    if stored.rpartition("/")[2] == last:
        read = last.casefold().replace("\u200d", "").rstrip(" .")
        assert KEPT.fullmatch(read) or read in NAMES.split(), name
    else:
        assert stored.endswith(".pulled")
    for part in stored.split("/")[:-1]:
        assert part.endswith(".pulled") or inert_folder(part) == part, "folders too"


@pytest.mark.parametrize(
    "folder", ["node_modules", "Node_Modules", "site-packages", "x.app", "CVS", ".git", ".vscode"]
)
def test_folders_that_programs_load_from_get_another_name(folder: str) -> None:
    assert inert_name(f"{folder}/data.csv") == f"{folder}.pulled/data.csv"
