"""Translation of providers' GPU names into those of the catalogue (`A100-80GB`, `H100`, `RTX4090`).

The maker and the memory are added if the provider does not tell them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

# Words for the maker, the customer or the chip, which do not identify the product.
_NOISE = re.compile(
    r"\b(nvidia|amd|aws|intel|corporation|tesla|geforce|quadro|instinct|radeon|generation|"
    r"tensor core|gpus?|blackwell|server edition|server"
    r"|edition|oam|hbm\d\w?|gddr\d\w?|graphics mode|compute mode|with nvlink|nvlink)\b",
    re.IGNORECASE,
)
_MEMORY = re.compile(r"\b(\d+(?:\.\d+)?)\s?(?:GB|GiB|G)\b", re.IGNORECASE)
_FORM = re.compile(r"\b(SXM|NVL|PCI-?e|PCI)\s?\d?\b", re.IGNORECASE)

# GiB of one device, from the makers' data sheets.
_DEVICE_GIB: dict[str, float] = {
    "A2": 16,
    "A10": 24,
    "A10G": 24,
    "A16": 16,
    "A30": 24,
    "A40": 48,
    "A100": 40,
    "A100-80GB": 80,
    "A800": 80,
    "A4000": 16,
    "A4500": 20,
    "A5000": 24,
    "A6000": 48,
    "RTXA2000": 6,
    "RTXA4000": 16,
    "RTXA4500": 20,
    "RTXA5000": 24,
    "RTXA6000": 48,
    "B200": 180,
    "B300": 288,
    "GB200": 192,
    "GB300": 288,
    "GH200": 96,
    "H20": 96,
    "H100": 80,
    "H100-NVL": 94,
    "H100-SXM": 80,
    "H200": 141,
    "K80": 12,
    "L4": 24,
    "L40": 48,
    "L40S": 48,
    "M60": 8,
    "P4": 8,
    "P40": 24,
    "P100": 16,
    "T4": 16,
    "T4g": 16,
    "V100": 16,
    "V100-32GB": 32,
    "RTX2000-Ada": 16,
    "RTX3060": 12,
    "RTX3070": 8,
    "RTX3080": 10,
    "RTX3080-Ti": 12,
    "RTX3090": 24,
    "RTX3090-Ti": 24,
    "RTX4000-Ada": 20,
    "RTX4060-Ti": 16,
    "RTX4070": 12,
    "RTX4070-Ti": 12,
    "RTX4070S-Ti": 16,
    "RTX4080": 16,
    "RTX4080-SUPER": 16,
    "RTX4080S": 16,
    "RTX4090": 24,
    "RTX5000-Ada": 32,
    "RTX5070": 12,
    "RTX5080": 16,
    "RTX5090": 32,
    "RTX6000": 24,
    "RTX6000-Ada": 48,
    "RTX8000": 48,
    "RTXPRO4500": 32,
    "RTXPRO6000": 96,
    "RTXPRO6000-MaxQ": 96,
    "RTXPRO6000-WK": 96,
    "MI25": 16,
    "MI250": 128,
    "MI300X": 192,
    "MI325X": 256,
    "MI355X": 288,
    "V520": 8,
    "V620": 32,
    "V710": 24,
    "Inferentia": 8,
    "Inferentia2": 32,
    "Trainium": 32,
    "Trainium2": 96,
    "Gaudi-HL-205": 32,
}
_MAKERS = (
    (re.compile(r"(Inferentia|Trainium)"), "AWS"),
    (re.compile(r"(MI\d|V520$|V620$|V710$)"), "AMD"),
    (re.compile(r"Gaudi"), "Habana"),
    (re.compile(r"(RTX|GTX|TITAN|GH\d|GB\d|[ABHLTVPKM]\d)", re.IGNORECASE), "NVIDIA"),
)
# GPUs sold with two sizes of memory: the least GiB of the larger one, and its name.
_LARGER = {"A100": (60.0, "A100-80GB"), "V100": (24.0, "V100-32GB")}
# Other spellings of providers, with the catalogue's name.
_OTHER_WORDS = {
    "T4G": "T4g",
    "PROV520": "V520",
    "PROV710": "V710",
    "GAUDIHL-205": "Gaudi-HL-205",
    "GAUDI-HL-205": "Gaudi-HL-205",
    "HL-205": "Gaudi-HL-205",
    "RTXPRO6000-S": "RTXPRO6000",
    "RTXPRO6000-SE": "RTXPRO6000",
    "RTXPRO6000-WS": "RTXPRO6000-WK",
    "RTXPRO6000-WORKSTATION": "RTXPRO6000-WK",
    "RTXPRO6000-MAX-Q": "RTXPRO6000-MaxQ",
    "RTXPRO6000-MAXQ": "RTXPRO6000-MaxQ",
    "QRTX6000": "RTX6000",
    "QRTX8000": "RTX8000",
}


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU as the catalogue names it.

    Attributes
    ----------
    name
        The name without the form factor, as most clouds' rows have it (`H100`).
    form
        `SXM`, `NVL`, `PCIe`, or empty if it is unknown.
    maker
        `NVIDIA`, `AMD`, `AWS`, …; empty if the name is of no known family.
    device_gib
        GiB of one device, from the provider or the data sheet; None if unknown.
    """

    name: str
    form: str = ""
    maker: str = ""
    device_gib: float | None = None

    @property
    def formed(self) -> str:
        """The name with its form factor, for clouds that sell several: `H100-SXM`.

        PCIe has no suffix.
        """
        return f"{self.name}-{self.form}" if self.form in ("SXM", "NVL") else self.name


@lru_cache(maxsize=1024)
def read(said: str, memory_gib: float | None = None) -> Gpu:
    """Read a provider's name of a GPU.

    `memory_gib` is one device's memory if it is given separately.

    A name of no known family is tidied and never guessed to be another.

    Examples
    --------
    >>> read("NVIDIA H100 80GB HBM3").name, read("H100 (80 GB SXM5)").formed
    ('H100', 'H100-SXM')
    >>> read("A100 80GB PCIe").name, read("GeForce RTX 4090").name, read("RTX A6000").name
    ('A100-80GB', 'RTX4090', 'RTXA6000')
    >>> read("RTX 6000Ada").name, read("NVIDIA RTX 4000 Ada Generation").name
    ('RTX6000-Ada', 'RTX4000-Ada')
    """
    text = re.sub(r"[_()]|\s-\s", " ", said)
    inside = _MEMORY.search(text)
    size = memory_gib if memory_gib else float(inside[1]) if inside else None
    text = _MEMORY.sub(" ", text)
    shape = _FORM.search(text)
    form = ""
    if shape:
        form = {"SXM": "SXM", "NVL": "NVL"}.get(shape[1].upper(), "PCIe")
        text = _FORM.sub(" ", text)
    name = _tidied(_NOISE.sub(" ", text))
    least, larger = _LARGER.get(name, (0.0, name))
    name = larger if size is not None and size >= least else name
    sheet = _DEVICE_GIB.get(f"{name}-{form}", _DEVICE_GIB.get(name))
    return Gpu(name, form, maker_of(name), size if size is not None else sheet)


def _tidied(text: str) -> str:
    """Tidy a name: `RTX 4060Ti` -> `RTX4060-Ti`, `RTX PRO 6000 S` -> `RTXPRO6000`."""
    line = " ".join(text.split()).strip(" -")
    line = re.sub(r"\bRTX PRO (\d)", r"RTXPRO\1", line, flags=re.IGNORECASE)
    line = re.sub(r"\b(Q ?)?(RTX|GTX) (A?\d)", r"\2\3", line, flags=re.IGNORECASE)
    line = re.sub(
        r"\b((?:RTX|GTX)\w*?\d{3,4}S?) ?(Ti|Ada|SUPER)\b", r"\1-\2", line, flags=re.IGNORECASE
    )
    name = re.sub(r"[^A-Za-z0-9.+-]+", "-", line).strip("-")
    for word, right in (("TI", "Ti"), ("ADA", "Ada"), ("SUPER", "SUPER")):
        name = re.sub(rf"-{word}\b", f"-{right}", name, flags=re.IGNORECASE)
    plain = name.upper()
    return _OTHER_WORDS.get(plain.replace("PRO-V", "PROV")) or next(
        (known for known in _DEVICE_GIB if known.upper() == plain), name
    )


def maker_of(name: str) -> str:
    """Return the maker of an accelerator of the catalogue; empty if its family is unknown."""
    return next((maker for pattern, maker in _MAKERS if pattern.match(name)), "")
