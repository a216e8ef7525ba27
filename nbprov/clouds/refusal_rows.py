"""The classes of words in which clouds refuse, what each means, and which causes it overrules.

The first row that may speak counts, so the more specific classes come first.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from nbprov.clouds.word_patterns import SENTENCE, word_pattern
from nbprov.model.failures import Cause, Scope

_GAP = SENTENCE
_NOT = r"(?:not|n't|n’t|cannot|can't|no longer|never|un)"
_PLACE = r"(?:availability ?zone|\bzone|\bregion|\blocation|data ?cent(?:er|re))s?\b(?!/)"
_TYPE = (
    r"(?:instance[ _-]?types?|machine[ _-]?types?|accelerator[ _-]?types?|gpu[ _-]?types?|"
    r"instance class|vm size)"
)
_GOODS = (
    r"(?:capacity|resources?|stock|gpus?|accelerators?|machines?|hosts?|instances?|nodes?|vms?|"
    r"servers?|supply|addresses|(?:disk )?space|storage|memory)"
)
_MISSING = (
    r"(?:does ?n[o']t exist|do not exist|not found|(?:could not|can ?not|can't) be found|"
    r"(?:could|can) ?not find|no such|unknown|invalid|is not (?:a )?valid|not recogni[sz]ed|"
    r"has been deleted|is deleted)"
)
_QUOTA = r"(?<![.\w])quotas?\b(?![ _-]?project)"
"""A limit. Google's "quota project" is one that pays; "serviceusage.quotas.get" is a permission."""
_IMAGE = r"(?:\bami\b|\bimage\b(?! size)|snapshot|image family|/images?/|/family/)"
_NETWORK = (
    r"(?:sub-?net(?:work)?s?\b|/subnetworks/|\bvpc\b|security group|placement group|key pair|"
    r"reservation|kms key\b|network volume|/reservations/)"
)


_SHORT = (
    rf"(?:(?:\bnot|n't|n’t)(?: currently)?(?: have| has| be)?(?: currently)? "
    rf"(?:enough|sufficient|available|any(?: more)?)\b{_GAP}{{0,80}}{_GOODS}\b)"
)
"""Not enough of something."""
_BARRED = (
    r"(?:(?:not|n't) (?:be )?(?:allowed|permitted|entitled|authori[sz]ed|able|eligible) to|"
    r"may not|cannot|can't|not approved to) "
    r"(?:launch|create|use|rent|deploy|provision|access|run|start)\b"
)
"""What an account may not do; of what, follows."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """What words mean: a cause, and how far the refusal reaches if the words say so."""

    cause: Cause
    scope: Scope | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """A class of words, what it means, and the causes of a code that it overrules."""

    pattern: re.Pattern[str]
    meaning: Meaning
    overrules: frozenset[Cause]


_OPEN = frozenset({Cause.UNKNOWN})
_LOST = _OPEN | {Cause.TRANSIENT, Cause.UNKNOWN_OUTCOME}
_GENERAL = _LOST | {Cause.BAD_REQUEST, Cause.PERMISSION}
_STOCK = frozenset({Cause.CAPACITY, Cause.SPOT})


def _row(
    pattern: str, cause: Cause, overrules: frozenset[Cause], scope: Scope | None = None
) -> Row:
    return Row(word_pattern(pattern), Meaning(cause, scope), overrules)


FAULT = _row(
    r"\bpq: |sqlstate|\b(?:sql|database|query) error|deadlock|duplicate key value|"
    r"(?:column|relation|table) \S+ does not exist|stack ?trace|traceback|"
    r"(?:null|nil) pointer|cannot read propert|is not a function|undefined is not|panic:|"
    r"unhandled (?:exception|rejection)|deadline exceeded|econn\w+|connection (?:was )?"
    r"(?:refused|reset)|socket hang up|broken pipe|\bdial tcp\b|\brpc error\b|"
    r"\bafter (?:the )?create\b|\bcreated,? but\b|\bread(?:ing)?[ -]?back\b|"
    r"failed to (?:load|fetch|read|describe) (?:the )?(?:new |created )*"
    r"(?:pod|instance|machine|vm|server)\b(?!.types?)",
    Cause.TRANSIENT,
    _GENERAL | {Cause.NOT_OFFERED},
)
"""A fault of the service, whatever it was working at. The request may have been carried out."""

ROWS = (
    FAULT,
    # ---- who answers is not there; a server that is asked for is a machine
    _row(
        r"\A(?!.*\b(?:capacity|stock)\b).{0,300}?(?:\bservice|\bapi|\A\W*server|\b(?:the|our|api|"
        r"web) server) is (?:currently |temporarily )?(?:unavailable|not available)",
        Cause.TRANSIENT,
        _LOST,
    ),
    # ---- "limit 'CPUS-per-project-region'" counts machines, even under the code of a rate limit
    _row(
        r"limit '(?![^']*per[ -]?(?:minute|second|hour|day|\d))[^']*per[ -]?project[^']*'",
        Cause.QUOTA,
        _GENERAL | {Cause.RATE_LIMIT},
    ),
    # ---- too many requests: "quota exceeded … queries per minute" is no quota on machines
    _row(
        r"throttl|rate[ -]?limit|rate exceeded|too many (?:api )?(?:requests|calls)|slow down|"
        r"too frequent|request limit exceeded|concurrent operations|"
        rf"\b(?:requests?|quer(?:y|ies)|reads?|writes?|operations?|mutations?|calls?)\b{_GAP}{{0,40}}"
        r"\bper (?:second|minute|100 seconds|hour)",
        Cause.RATE_LIMIT,
        _GENERAL | {Cause.QUOTA},
    ),
    # ---- money, and accounts that were closed
    _row(
        r"(?:insufficient|not (?:have )?(?:enough|sufficient)|low|no|negative|out of|zero) "
        r"(?:account |prepaid )?(?:funds|balance|credits?|money)\b|"
        r"(?:balance|funds|credits?) (?:is |are )?(?:too low|not enough|insufficient|exhausted|"
        rf"depleted|negative)|balance {_GAP}{{0,30}}(?:below|under|less than)|"
        r"positive balance|add (?:more |some )?(?:funds|credits?)|"
        r"\$ ?\d[\d.,]* (?:left )?(?:in|on) (?:your|the) (?:account|wallet)|minimum balance|"
        r"at least (?:one|1) hour.{0,40}(?:credit|fund|balance|runtime)|"
        rf"absent billing account|billing (?:account )?{_GAP}{{0,60}}(?:disabled|not enabled|"
        r"must be enabled|closed|"
        r"not found|not open|not active|delinquent|to be enabled)|billing has not been enabled|"
        r"billing address|(?:valid|update your|add a|missing|declined|failed) payment|"
        r"payment (?:method|instrument|required|information|failed|declined)|non-?payment|"
        r"unpaid|past due|overdue|credit card|"
        r"(?<!service )(?:\b(?:account|consumer|project|subscription|team|organization)\b)"
        rf"(?! currently being){_GAP}{{0,60}}\b(?:suspended|banned|blocked|locked|deactivated|"
        r"is closed|been closed|inactive|delinquent|on hold|restricted due)|"
        r"\b(?:user|team) (?:has been |is )(?:banned|suspended|blocked)|"
        rf"(?<!service )\baccount (?:for {_GAP}{{0,60}})?(?:is |has been )?"
        r"(?:administratively )?disabled|"
        r"administratively disabled for this account",
        Cause.BALANCE,
        _GENERAL | _STOCK | {Cause.NOT_OFFERED, Cause.CREDENTIALS},
    ),
    # ---- limits of one type of machine are no quotas
    _row(
        rf"limit{_GAP}{{0,40}} for (?:the|this|that) (?:type of instance|instance type|"
        r"machine type)",
        Cause.BAD_REQUEST,
        _LOST | {Cause.QUOTA},
        Scope.OFFER,
    ),
    # ---- limits of what one request may hold are no quotas
    _row(
        rf"\b(?:characters?|bytes)\b{_GAP}{{0,30}}\blimit|\blimit{_GAP}{{0,30}}\b(?:characters?|"
        r"bytes)\b|(?:number of|exposed|too many)(?: [\w-]+){0,2} (?:ports?|labels?|tags?|"
        rf"variables?|metadata|filters?)\b|(?:disk|volume) size(?!.{{0,60}}quota){_GAP}{{0,30}}"
        r"(?:exceed|larger|"
        r"greater|too large)",
        Cause.BAD_REQUEST,
        _LOST,
    ),
    # ---- limits of the account
    _row(
        rf"{_QUOTA}.{{0,80}}(?:exceed|reach|insufficient|not enough|too low|allows? for|limit|"
        r"exhausted|allocated|used up|consumed)|"
        r"(?:exceed\w{0,4}|over|reach\w{0,4}|insufficient|(?:not|n't) (?:have )?enough|increase|"
        rf"no\b|above|beyond).{{0,60}}{_QUOTA}|"
        r"(?:limit|maximum) (?:on|of|for) the (?:total )?number of|maximum number of (?!tags)|"
        r"(?:exceed(?:ed|s|ing)?|reach(?:ed|es)?|over|hit|more \w+ \w+ than|above) (?:your|the|"
        r"its|our|an?)(?: [\w-]+){0,6} limit|limit (?:was|has been|is|of [\d.]+ \w+ is) "
        r"(?:exceeded|reached)|limit[ -]?exceeded|exceeded limit|"
        r"spend(?:ing)? ?limit|hourly (?:spend )?limit|than your (?:current )?\w+ limit|"
        rf"contact (?:us\b|support){_GAP}{{0,30}} (?:increase|raise) (?:your|the) limit",
        Cause.QUOTA,
        _GENERAL | _STOCK,
    ),
    # ---- plans and policies of the account
    _row(
        r"free[- ](?:tier|trial|plan)|(?:upgrade|not available (?:on|in|for)) (?:your|the|an?) "
        r"(?:current |free |paid )?(?:account )?plan|upgrade (?:your account )?to (?:a )?paid",
        Cause.BAD_REQUEST,
        _GENERAL | _STOCK | {Cause.NOT_OFFERED},
        Scope.ACCOUNT,
    ),
    _row(
        rf"tag polic|tags? {_GAP}{{0,60}}(?:non-?complian|not complian|are required|is required)|"
        r"(?:non-?complian\w*|required) tags?\b",
        Cause.BAD_REQUEST,
        _GENERAL,
        Scope.ACCOUNT,
    ),
    # ---- an image or a reservation that does not go with the type of machine
    _row(
        r"(?:architecture|boot mode|ena\b|\bami\b|\bimage\b|marketplace product|reservation)"
        r".{0,120}(?:match|incompatib|not compatible|not support|enabled for ena|mismatch)|"
        r"(?:incompatib\w{1,8}|not compatible|mismatch|not support\w{0,4}).{0,80}(?:architecture|"
        r"\bami\b|\bimage\b|boot mode|reservation)|requires? (?:an? )?(?:arm64|x86_64|uefi|nvme)|"
        r"ena\) is required|\[[^\[\]]*\bpd-\w[^\[\]]*\] features are not compatible",
        Cause.BAD_REQUEST,
        _LOST | _STOCK | {Cause.NOT_OFFERED, Cause.BAD_REQUEST},
        Scope.OFFER,
    ),
    # ---- a type or a cloud that is not sold as spot; on demand it may be
    _row(
        r"\b(?:spot|interruptible|preemptible)\b(?: [\w-]+){0,3} (?:is|are)(?: currently)? "
        r"(?:no longer|not) (?:offered|available|supported|sold|allowed)(?! when| with\b| if)",
        Cause.SPOT,
        _LOST | _STOCK | {Cause.NOT_OFFERED, Cause.BAD_REQUEST},
    ),
    # ---- a place or a type that the account has not been given
    _row(
        rf"{_PLACE}{_GAP}{{0,60}}(?:{_NOT}[ -]?(?:been )?(?:enabled|activated|opted)|disabled for)|"
        rf"{_NOT} activated in this region|enable the region|opt(?:ed)?[ -]in to (?:the|this) "
        r"region",
        Cause.PERMISSION,
        _GENERAL | {Cause.CREDENTIALS, Cause.BALANCE, Cause.NOT_OFFERED},
        Scope.REGION,
    ),
    _row(
        rf"(?:access to|cannot access|not (?:authori[sz]ed|allowed|permitted) (?:for|in|to use)|"
        rf"denied (?:in|for)|restricted (?:in|from)|prohibited in)\b{_GAP}{{0,40}}"
        rf"(?:{_PLACE}|pool\b)|{_BARRED}{_GAP}{{0,60}} (?:in|to|from) {_GAP}{{0,20}}{_PLACE}|"
        rf"{_PLACE}{_GAP}{{0,60}}(?:not allowed|is restricted|access is unauthorized|not permitted|"
        r"not accessible)",
        Cause.PERMISSION,
        _OPEN | {Cause.BAD_REQUEST},
        Scope.REGION,
    ),
    _row(
        rf"(?:access to|cannot access|not (?:authori[sz]ed|allowed|permitted) (?:for|to use))\b"
        rf"{_GAP}{{0,40}}(?:{_TYPE}|\bgpu\b)|{_BARRED}{_GAP}{{0,30}}(?:{_TYPE}|\bgpu|instances)|"
        rf"(?:{_TYPE}|\bgpus?\b|machine|instance){_GAP}{{0,60}}(?:restricted|reserved|limited|"
        rf"only available|available only) (?:to|for) {_GAP}{{0,30}}"
        r"(?:accounts?|customers?|teams?|users?|members?|partners?|plans?)",
        Cause.PERMISSION,
        _OPEN | {Cause.BAD_REQUEST},
        Scope.OFFER,
    ),
    # ---- an image that the account may not use
    _row(
        r"(?:permission|access|authori[sz]ed|allowed) (?:to|for|on)(?: [\w-]+){0,4} "
        r"(?:image|ami|snapshot)",
        Cause.PERMISSION,
        _OPEN | {Cause.BAD_REQUEST},
        Scope.NOTHING,
    ),
    # ---- "not sufficient permissions to create instances" is not about instances
    _row(
        r"(?:insufficient|lacks?|lacking|missing|without|(?:not|n't|n’t)(?: have)? (?:enough|"
        r"sufficient|the)(?: [\w-]+){0,2}) (?:[\w-]+ ){0,2}(?:permissions?|privileges?|rights|"
        r"scopes|access rights|authori[sz]ations?|entitlements?)\b",
        Cause.PERMISSION,
        _OPEN | {Cause.BAD_REQUEST},
    ),
    # ---- out of stock for now, in a whole region if that is what is said
    _row(
        rf"{_SHORT}{_GAP}{{0,80}}\b(?:all|any|every) (?:availability )?zones?\b|"
        rf"\bregion '?[\w/-]+'? (?:does )?{_SHORT}|\bregion '?[\w/-]+'? is (?:currently )?out of",
        Cause.CAPACITY,
        _GENERAL | {Cause.QUOTA, Cause.NOT_OFFERED, Cause.RATE_LIMIT},
        Scope.REGION,
    ),
    _row(
        rf"{_SHORT}|(?:\bnot|n't|n’t) have(?: [\w.-]+){{0,3}} (?:capacity|stock)\b|"
        rf"{_PLACE}{_GAP}{{0,40}} (?:under|in|for) maintenance|"
        rf"(?:storage|disk|cluster)\b{_GAP}{{0,40}} is full|"
        rf"insufficient{_GAP}{{0,50}}{_GOODS}\b|insufficient[-_ ]?capacity|"
        rf"\b(?:out of|no|lack of|lacks|short of|without)(?: [\w.-]+){{0,4}} "
        rf"(?:capacity|stock|resources)\b|\bno {_GOODS}\W*$|\bout of(?: [\w.-]+){{0,3}} gpus|"
        rf"find (?:a|any) {_GOODS}\b(?! (?:image|type|with id|named))|"
        rf"out[- ]of[- ]stock|stock-?_?out|sold out|"
        rf"(?:pool|capacity|zone|region|reservation)\b{_GAP}{{0,80}}\b(?:is |are |been )?exhausted|"
        rf"pool_exhausted|"
        rf"\b(?:no|none of the)(?: longer)?(?: any)?(?: [\w.-]+){{0,4}} {_GOODS}\b"
        rf"(?: [\w.-]+){{0,6}} (?:available|free|left)\b|no available {_GOODS}|"
        rf"{_GOODS}\b{_GAP}{{0,60}}(?:currently|temporarily|right now)\b{_GAP}{{0,20}}"
        rf"(?:unavailable|not available|out of)|"
        rf"(?:currently|temporarily) (?:unavailable|not available|out) in|"
        rf"(?:\bgpus?\b|{_TYPE}|machine|instance|capacity){_GAP}{{0,60}} (?:is|are) (?:currently )?"
        rf"unavailable|capacity is (?:currently )?not available|does not have the resources|"
        rf"no more [\w.-]+ (?:available|left)|no(?: [\w.-]+){{0,2}} {_GOODS} (?:were |was )?found|"
        rf"\b(?:machine|host|server|node)\b(?! types?){_GAP}{{0,40}} is not available|"
        rf"supply[ _-]?constraint|at capacity|fully (?:booked|utili[sz]ed|allocated|used|consumed)|"
        rf"(?:all|every) {_GOODS}(?: [\w.-]+){{0,4}} (?:are|is) "
        r"(?:in use|busy|taken|rented)|already been rented",
        Cause.CAPACITY,
        _GENERAL | {Cause.QUOTA, Cause.NOT_OFFERED, Cause.RATE_LIMIT},
    ),
    # ---- a type or a place that does not exist, or does not exist there
    _row(
        rf"{_TYPE}{_GAP}{{0,100}}(?:{_MISSING}|not (?:currently )?(?:supported|available|offered|"
        rf"sold|valid)|unsupported|unavailable|deprecated|retired|discontinued|no longer)|"
        rf"(?:{_MISSING}|unsupported|not support\w*)(?: (?!field|param)[\w'\".-]+){{0,4}} {_TYPE}|"
        rf"{_TYPE}{_GAP}{{0,60}}(?:only available|available only) (?:with|through|via|as|in)\b|"
        rf"/(?:machinetypes|acceleratortypes|disktypes)/[^ ]* was not found|"
        rf"for instancetype\b|(?:invalid|unknown|unsupported) gpu|"
        rf"\bgpus?\b(?![-/']){_GAP}{{0,60}}(?:{_MISSING}|not (?:supported|offered|sold))",
        Cause.NOT_OFFERED,
        _LOST | _STOCK | {Cause.BAD_REQUEST, Cause.PERMISSION},
    ),
    _row(
        rf"(?:{_MISSING}|unsupported) {_PLACE}|{_PLACE}[^.:]{{0,60}}(?:{_MISSING}|not (?:offered|"
        rf"sold|supported|available|a valid)|deprecated|turned down)|"
        rf"/(?:zones|regions)/[\w-]+'? was not found|"
        rf"not (?:supported|available|offered|sold) (?:in|at|by) (?:your |the |this |that |any of "
        rf"the )?(?:requested |selected |specified )?(?:{_PLACE}|country)",
        Cause.NOT_OFFERED,
        _LOST | _STOCK | {Cause.BAD_REQUEST, Cause.PERMISSION},
    ),
    # ---- something of the request that is not in this region, or no longer
    _row(
        rf"{_IMAGE}.{{0,100}}(?:{_MISSING}|deprecated|obsolete|disabled|deregistered|not "
        rf"available|pending|can ?not be used|is deleted)|{_MISSING}{_GAP}{{0,30}} {_IMAGE}",
        Cause.BAD_REQUEST,
        _LOST | {Cause.NOT_OFFERED, Cause.BAD_REQUEST},
        Scope.REGION,
    ),
    _row(
        rf"{_NETWORK}.{{0,100}}(?:{_MISSING}|not in (?:the|a|this)|in an invalid state|not "
        rf"accessible|different (?:network|vpc|region|zone|project)|must (?:exist|be) in|"
        rf"(?:cannot|can't|can not|not) be (?:attached|mounted))|"
        rf"(?:{_MISSING}|no(?: default)?|missing)\b{_GAP}{{0,30}} {_NETWORK}|"
        r"must specify a subnet",
        Cause.BAD_REQUEST,
        _LOST | {Cause.NOT_OFFERED, Cause.BAD_REQUEST},
        Scope.REGION,
    ),
    # ---- what was asked does not go together; only codes of stock and open ones are overruled
    _row(
        r"incompatib|not compatible|(?:not|n't|n’t|un)[ ]?support|invalid combination|conflicts? "
        r"with the (?:instance|machine)",
        Cause.NOT_OFFERED,
        _LOST | _STOCK,
    ),
    # ---- "cannot be fulfilled", and "try another zone", without a reason
    _row(
        r"(?:can ?not|can't|could not) be (?:satisfied|fulfilled|placed|scheduled|accommodated)",
        Cause.CAPACITY,
        _LOST,
    ),
    _row(
        r"(?:try|choose|choosing|use|select|request|retry)\w*(?: \w+){0,6} (?:another|a "
        rf"different|other|a new)(?: [\w-]+){{0,2}} (?:{_PLACE}|{_GOODS}|{_TYPE}|type|size)",
        Cause.CAPACITY,
        _LOST | {Cause.BAD_REQUEST},
    ),
    # ---- a state that passes
    _row(
        r"not in (?:a|the|an) (?:valid |correct )?state|is not ready|not yet ready|(?:already )?in "
        r"progress|\b(?:is|are|was|were|still|already) being (?:created|deleted|updated|modified|"
        r"used)|current state(?! is:? (?:disabled|destroyed))",
        Cause.TRANSIENT,
        _OPEN | {Cause.BAD_REQUEST},
    ),
    # ---- who is asking
    _row(
        rf"(?:api ?key|token|credentials?|signature|access key|secret key)\b{_GAP}{{0,60}}"
        r"(?:invalid|expired|revoked|disabled|not valid|deleted|missing|malformed|incorrect|"
        r"not found|do(?:es)? not exist)|"
        r"(?:invalid|expired|missing|revoked|bad|incorrect|malformed)(?: [\w-]+){0,3} "
        r"(?:api ?key|token|credentials?|signature|grant)|unauthenticated|authentication (?:failed"
        r"|is required|required|error|credential)|login required|not authenticated|"
        rf"(?:unable to|could not|not able to) (?:locate|load|validate){_GAP}{{0,40}}credentials|"
        r"clock|current time is too|please check your api key",
        Cause.CREDENTIALS,
        _OPEN | {Cause.PERMISSION, Cause.BAD_REQUEST},
    ),
    _row(
        r"\bpermissions?\b|not authori[sz]ed|unauthori[sz]ed|not allowed to|access (?:is )?denied|"
        r"forbidden|prohibited|org(?:ani[sz]ation)?(?:'s)? polic|constraints?/|service control "
        rf"polic|\brole\b{_GAP}{{0,30}}required",
        Cause.PERMISSION,
        _OPEN,
    ),
    # ---- a fault of the service, and what no place would take
    _row(
        r"try again (?:later|in|shortly|after)|please retry|temporar|internal (?:server )?error|"
        r"something went wrong|unexpected (?:system )?error|bad gateway|gateway time|timed? ?-?out"
        r"|service (?:is )?(?:currently )?unavailable|overloaded|upstream",
        Cause.TRANSIENT,
        _OPEN,
    ),
    _row(
        r"invalid (?:value|parameter|argument|field|request|json|body)|malformed|must be |must not "
        r"|mutually exclusive|validation failed|is required|not recogni[sz]ed|should (?:be|have) |"
        r"is not an? (?:supported|allowed|valid|accepted)|"
        r"too (?:long|large)",
        Cause.BAD_REQUEST,
        _OPEN,
    ),
)
