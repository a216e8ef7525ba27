"""The parsers of the magics' lines, with the help that `--help` prints."""

from __future__ import annotations

from functools import cache

from nbprov.notebook.arguments import MagicParser, at_least_one, days, dollars


def provision_parser() -> MagicParser:
    """Return the parser of `%%provision`."""
    parser = MagicParser(
        "%%provision",
        "Get machines as the YAML in the cell says. Shows the plan and waits for Launch.",
        "example:\n  %%provision dev\n  resources:\n    accelerators: A100\n"
        "    infra: [aws, gcp]\n    autostop: 30m",
    )
    parser.add_argument(
        "name",
        nargs="?",
        default="",
        help="name of the cluster, and of the variable that holds the run",
    )
    parser.add_argument(
        "--yes",
        "-y",
        action="store_true",
        help="launch without waiting for the button; this agrees to the caps in the spec",
    )
    parser.add_argument(
        "--wait",
        "-w",
        action="store_true",
        help="block until the cluster is set up, and raise its failure as the cell's error",
    )
    parser.add_argument("--dry-run", action="store_true", help="show the plan and create nothing")
    _add_spec_arguments(parser)
    _add_failure_arguments(parser)
    return parser


def _add_spec_arguments(parser: MagicParser) -> None:
    parser.add_argument(
        "--replace",
        action="store_true",
        help="if a cluster of that name does not fit, launch the new one beside it, then terminate"
        " the old one and give its name to the new one",
    )
    parser.add_argument(
        "--race",
        type=at_least_one,
        metavar="N",
        help="try up to N places at once and keep the first that is ready"
        " (default: the race field of the spec)",
    )
    parser.add_argument(
        "--env",
        action="append",
        default=[],
        metavar="NAME[=VALUE]",
        help="value for an env or secret of the spec, in place of the one written there;"
        " NAME alone takes the kernel's own value (may be repeated)",
    )
    parser.add_argument(
        "--outputs-to",
        default="",
        metavar="FOLDER",
        help="the folder for outputs, and an agreement to targets below it"
        " (default: NAME-outputs; other targets must lie below the notebook's folder)",
    )
    parser.add_argument(
        "--ignore",
        action="append",
        default=[],
        metavar="FIELD",
        help="turn the error about a field into a warning",
    )


def _add_failure_arguments(parser: MagicParser) -> None:
    parser.add_argument(
        "--on-interrupt",
        choices=("cancel", "detach"),
        default="cancel",
        help="what Ctrl-C does to the launch (default: cancel)",
    )
    parser.add_argument(
        "--on-setup-failure",
        choices=("keep", "down"),
        default="",
        help="what happens to machines whose setup fails"
        " (default: the on_setup_failure field of the spec, else keep)",
    )


def prices_parser() -> MagicParser:
    """Return the parser of `%prices`."""
    parser = MagicParser(
        "%prices",
        "List the offers, cheapest first; clouds that are not set up are listed too.",
        "examples:\n  %prices A100:8 --cloud aws --cloud gcp --spot\n"
        "  %prices A100:4+ --region eu --fresh 30\n  %prices 80GB+:8 --max-price 30\n"
        "  %prices --gpus --region eu\n"
        "  x = %prices /H[12]00/          # a pandas DataFrame",
    )
    parser.add_argument(
        "accelerator",
        nargs="?",
        default="",
        help="A100, A100:8, A100:4+, 80GB+, nvidia:24GB:2, A100*, /A100.*/ or part of a name;"
        " upper and lower case are the same",
    )
    parser.add_argument(
        "--gpus",
        action="store_true",
        help="list the accelerators instead: counts, memory, cheapest price and clouds",
    )
    _add_place_arguments(parser)
    _add_size_arguments(parser)
    _add_price_arguments(parser)
    return parser


def _add_place_arguments(parser: MagicParser) -> None:
    parser.add_argument(
        "--cloud",
        action="append",
        default=[],
        metavar="CLOUD",
        help="only this cloud (may be repeated)",
    )
    parser.add_argument(
        "--region",
        action="append",
        default=[],
        metavar="REGION",
        help="only this region, pattern (us-*), country or continent (de, eu) (may be repeated)",
    )
    parser.add_argument(
        "--zone",
        action="append",
        default=[],
        metavar="ZONE",
        help="only this zone (may be repeated)",
    )


def _add_size_arguments(parser: MagicParser) -> None:
    parser.add_argument(
        "--type",
        action="append",
        default=[],
        metavar="TYPE",
        help="only this instance type or pattern (may be repeated)",
    )
    market = parser.add_mutually_exclusive_group()
    market.add_argument("--spot", action="store_true", help="only the spot market")
    market.add_argument("--on-demand", action="store_true", help="only the on-demand market")
    parser.add_argument("--cpus", default=None, metavar="N", help="vCPUs: 8 (exactly) or 8+")
    parser.add_argument(
        "--memory",
        default=None,
        metavar="SIZE",
        help="memory in GiB: 32, 32+, 64GB+ or 4x (per vCPU)",
    )


def _add_price_arguments(parser: MagicParser) -> None:
    parser.add_argument(
        "--min-price",
        type=dollars,
        default=None,
        metavar="USD",
        help="at least this many dollars per hour and node",
    )
    parser.add_argument(
        "--max-price",
        type=dollars,
        default=None,
        metavar="USD",
        help="at most this many dollars per hour and node",
    )
    parser.add_argument(
        "--fresh",
        type=days,
        default=None,
        metavar="DAYS",
        help="only prices that are at most this many days old",
    )
    parser.add_argument(
        "--live",
        action="store_true",
        help="ask the clouds that are set up for their current prices",
    )


@cache
def on_parser() -> MagicParser:
    """Return the parser of `%%on`.

    All cells share one parser, because building it takes longer than parsing a line with it.
    """
    parser = MagicParser(
        "%%on",
        "Run the cell on a cluster: as Python in a kernel that keeps running there, or as a shell"
        " script with --bash. Waits until the cluster is set up.",
        "example:\n  %%on dev -i batch -o loss\n  loss = model(batch).mean().item()",
    )
    parser.add_argument("name", help="the cluster")
    parser.add_argument("--bash", action="store_true", help="run the cell as a shell script")
    parser.add_argument(
        "--input",
        "-i",
        action="append",
        default=[],
        metavar="NAMES",
        help="copy these variables to the cluster first: -i a,b",
    )
    parser.add_argument(
        "--output",
        "-o",
        action="append",
        default=[],
        metavar="NAMES",
        help="copy these variables back afterwards: -o c",
    )
    parser.add_argument(
        "--nodes",
        default="head",
        metavar="all|N",
        help="which nodes: head (default), all, a number, 0,2 or 1-3",
    )
    parser.add_argument(
        "--env",
        action="append",
        default=[],
        metavar="NAME[=VALUE]",
        help="an environment variable for the cell; NAME alone takes the kernel's own value,"
        " which is not shown anywhere",
    )
    parser.add_argument(
        "--trust",
        action="store_true",
        help="let -o bring back any object; unpickling runs code that the machine may have put"
        " into it",
    )
    return parser


def clusters_parser() -> MagicParser:
    """Return the parser of `%clusters`."""
    parser = MagicParser(
        "%clusters",
        "Show your clusters: state, cost so far, price and guards, with buttons to stop, start and"
        " terminate them.",
    )
    parser.add_argument("--all", action="store_true", help="also show clusters that have ended")
    return parser
