"""Names of files that hold data: what keeps its own name when it comes from a machine.

Nobody can list what programs run by themselves, so the list is of what they do not run. An ending
that is missing here costs a person one option; one that should not be here costs a computer.
"""

from __future__ import annotations

import re

ENDINGS = """
    .csv .tsv .psv .tab .tbl .dat .data .raw .fwf .asc .parquet .pq .feather .arrow .ipc .avro .orc
    .xlsx .ods .dta .sav .por .xpt .sas7bdat .rds .rda .rdata .jld .jld2 .mat .npy .npz .pkl .pickle
    .joblib .dill .sqlite .sqlite3 .sqlite-wal .sqlite-shm .db .db3 .db-wal .db-shm .wal .duckdb

    .pt .pth .ckpt .safetensors .bin .onnx .onnx_data .gguf .ggml .pb .pbtxt .tflite .keras .weights
    .params .caffemodel .prototxt .msgpack .distcp .torchscript .ptl .engine .plan .trt .cbm .ubj
    .xgb .lgb .tfrecord .tfrecords .rec .index .meta .idx .lst .model .spm .vocab .merges .bpe
    .tiktoken .faiss .hnsw .ann .emb .vec .vectors .lance .mds .ocdbt .wandb .tfevents

    .h5 .hdf5 .hdf .he5 .nc .nc4 .cdf .grib .grb .grb2 .zarr .fits .fit .fts .asdf .root .lhe .hepmc
    .las .laz .e57 .pcd .ply .stl .obj .off .gltf .glb .vtk .vtu .vtp .vti .vtr .vts .pvd .pvtu .xmf
    .xdmf .cgns .exo .msh .silo .tif .tiff .geojson .topojson .geojsonl .shp .shx .dbf .prj .cpg
    .gpkg .kml .kmz .gpx .mbtiles .pmtiles .dcm .nii .mha .mhd .nrrd .czi .nd2 .lif .mrc .mrcs
    .edf .bdf .fif .nwb

    .fasta .fa .fna .faa .ffn .frn .fastq .fq .fai .sam .bam .bai .cram .crai .vcf .bcf .tbi .csi
    .bed .bedgraph .bedpe .bw .bigwig .bigbed .gtf .gff .gff3 .maf .paf .gfa .2bit .sra .gb .gbk
    .embl .pdb .pdbqt .cif .mmcif .mol .mol2 .sdf .smi .xyz .trr .xtc .dcd .gro .tpr .edr .psf
    .prmtop .inpcrd .mtx .h5ad .h5mu .loom .mgf .mzml .mzxml .nwk .newick .phy .aln .sto .hmm .a3m
    .nex .cub .cube .bgz

    .png .jpg .jpeg .jp2 .gif .webp .bmp .pgm .ppm .pbm .pnm .avif .heic .exr .hdr .svg .pdf .wav
    .mp3 .flac .ogg .opus .m4a .aac .mid .mp4 .mkv .webm .avi .mov .srt .vtt

    .log .out .err .stdout .stderr .prof .pstats .trace .pftrace .nsys-rep .ncu-rep .qdrep .folded
    .jsonl .ndjson .html .htm .ipynb .bib .tex .docx .pptx .diff .patch
    .zip .tar .gz .tgz .bz2 .tbz2 .xz .txz .zst .lz4 .7z .rar .md5 .sha1 .sha256 .sha512 .crc
"""
"""What data scientists bring home. A notebook, a page or a picture does nothing before a person
opens it, and its viewer then keeps it apart; so they count as data."""

TEXTS = frozenset((".json", ".yaml", ".yml", ".txt", ".text", ".xml", ".md", ".rst"))
"""Data for people, and now and then what a tool looks for by its name: see `is_for_tools`."""

NAMES = """
    license licence copying copyright notice authors contributors readme changelog changes news todo
    manifest _success _metadata _common_metadata checkpoint latest _checkpoint_metadata _sharding
    _strategy version-hint stdout stderr md5sums sha1sums sha256sums sha512sums data.mdb lock.mdb
    incar poscar contcar kpoints outcar oszicar xdatcar doscar eigenval ibzkpt procar chgcar chg
    locpot wavecar elfcar
"""
"""Names without an ending of data that nothing runs. VASP's are in capitals."""

HIDDEN = frozenset((".zarray", ".zgroup", ".zattrs", ".zmetadata", ".metadata", ".hydra"))
"""Hidden names of data formats (zarr, PyTorch's distributed checkpoints, Hydra), which run
nothing."""

PATTERNS = re.compile(
    r"\d+(\.\d+)*"  # a chunk of zarr, a shard
    r"|.+\.data-\d+-of-\d+"  # a shard of TensorFlow
    r"|.+\.log\.\d+"  # an older log
    r"|events\.out\.tfevents\.[\w.-]+\.(\d+|v2)",
    re.ASCII,
)
"""Names of data whose ending is a number."""

TOOLS = """
    compose docker-compose docker-bake package package-lock npm-shrinkwrap composer deno import_map
    tsconfig jsconfig pyrightconfig bsconfig rescript elm haxelib dub dvc mkdocs pnpm-workspace
    lefthook taskfile skaffold devcontainer devfile devspace devbox flox turbo nx project workspace
    lerna rush bower component renovate serverless pom build ivy module configure phpunit testng
    wscript sconstruct sconscript autogen vcpkg omnisharp dotnet-tools nuget nodemon firebase vercel
    angular nest-cli ng-package ecosystem hie shard pubspec melos myst jupytext voila kernel
    overrides dbt_project profiles meltano prefect dagster helmfile kustomization pulumi cdk cdktf
    samconfig buildspec appspec cloudbuild appveyor azure-pipelines bitbucket-pipelines codefresh
    app invoke tasks launch procfile galaxy molecule anaconda-project tox noxfile compile_commands
    compile_flags meson_options ctestcostdata install_manifest nbproject classpath log4j log4j2
    logback androidmanifest proguard detekt ktlint agent agents claude gemini qwen
    copilot-instructions skill warp mcp opencode crush llms
"""
"""What tools look for although it has an ending of text: `compose.yml`, `package.json`. What the
instructions of coding assistants are called belongs here too: they are followed unasked."""

TOOL_STARTS = ("cmake", "conanfile", "jupyter", "ipython", "_config", "_quarto", "_toc", "pulumi")
TOOL_PARTS = """
    config conf configuration override presets settings workflow vs tavern props targets
    tf tofu tfvars tftest pkr pkrvars nomad hcl
"""
"""Between two dots of a name they say that a tool reads it: `babel.config.json`, `main.tf.json`."""

_ENDINGS, _NAMES = frozenset(ENDINGS.split()), frozenset(NAMES.split())
_TOOLS, _TOOL_PARTS = frozenset(TOOLS.split()), frozenset(TOOL_PARTS.split())


def is_data_name(name: str) -> bool:
    """Return whether a file of this name holds data that no program runs by itself.

    Parameters
    ----------
    name
        The last part of a path, in small letters.

    Examples
    --------
    >>> [is_data_name(name) for name in ("scores.csv", "license", "events.out.tfevents.17.box.3.0")]
    [True, True, True]
    >>> [is_data_name(name) for name in ("libz.so.1", "main.tf", "makefile", "package.json")]
    [False, False, False, False]
    """
    if name.startswith("."):
        return name in HIDDEN
    stem, dot, last = name.rpartition(".")
    if stem and dot + last in TEXTS:
        return not is_for_tools(name)
    is_named = (stem and dot + last in _ENDINGS) or name in _NAMES
    return bool(is_named) or PATTERNS.fullmatch(name) is not None


def is_for_tools(name: str) -> bool:
    """Return whether tools look for a text of this name and do what it says.

    Examples
    --------
    >>> [is_for_tools(name) for name in ("test_log.txt", "jest.config.json", "cmakelists.txt")]
    [True, True, True]
    >>> [is_for_tools(name) for name in ("config.json", "requirements.txt", "model.bin.index.json")]
    [False, False, False]
    """
    stem, *parts, ending = name.split(".")
    is_doctest = ending in ("txt", "text", "rst", "md") and stem.startswith("test")
    return (
        is_doctest  # pytest takes `test*.txt` for tests
        or stem in _TOOLS
        or stem.startswith(TOOL_STARTS)
        or "presets" in name
        or not _TOOL_PARTS.isdisjoint(parts)
    )
