"""The things that refusals speak of, as patterns for the rows of `refusal_rows.py`."""

from __future__ import annotations

from nbprov.clouds.word_patterns import SENTENCE

GAP = SENTENCE
"""Anything within one sentence."""
NOT = r"(?:not|n't|n’t|cannot|can't|no longer|never|un)"
PLACE = r"(?:availability ?zone|\bzone|\bregion|\blocation|data ?cent(?:er|re))s?\b(?!/)"
TYPE = (
    r"(?:instance[ _-]?types?|machine[ _-]?types?|accelerator[ _-]?types?|gpu[ _-]?types?|"
    r"instance class|vm size)"
)
GOODS = (
    r"(?:capacity|resources?|stock|gpus?|accelerators?|machines?|hosts?|instances?|nodes?|vms?|"
    r"servers?|supply|addresses|(?:disk )?space|storage|memory)"
)
MISSING = (
    r"(?:does ?n[o']t exist|do not exist|not found|(?:could not|can ?not|can't) be found|"
    r"(?:could|can) ?not find|no such|unknown|invalid|is not valid|not recogni[sz]ed|"
    r"has been deleted|is deleted)"
)
QUOTA = r"(?<![.\w])quotas?\b(?![ _-]?project)"
"""A limit. Google's "quota project" is one that pays; "serviceusage.quotas.get" is a permission."""
IMAGE = r"(?:\bami\b|\bimage\b(?! size)|snapshot|image family|/images?/|/family/)"
NETWORK = (
    r"(?:sub-?net(?:work)?s?\b|/subnetworks/|\bvpc\b|security group|placement group|key pair|"
    r"reservation|kms key\b|network volume|/reservations/)"
)


SHORT = (
    rf"(?:(?:\bnot|n't|n’t)(?: currently)?(?: have| has| be)?(?: currently)? "
    rf"(?:enough|sufficient|available|any(?: more)?)\b{GAP}{{0,80}}{GOODS}\b)"
)
"""Not enough of something."""
BARRED = (
    r"(?:(?:not|n't) (?:be )?(?:allowed|permitted|entitled|authori[sz]ed|able|eligible) to|"
    r"may not|cannot|can't|not approved to) "
    r"(?:launch|create|use|rent|deploy|provision|access|run|start)\b"
)
"""What an account may not do; of what, follows."""
