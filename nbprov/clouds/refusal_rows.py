"""The classes of words in which clouds refuse, what each means, and which causes it overrules.

The first row that may speak counts, so the more specific classes come first.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from nbprov.clouds.refusal_terms import (
    BARRED,
    GAP,
    GOODS,
    IMAGE,
    MISSING,
    NETWORK,
    NOT,
    PLACE,
    QUOTA,
    SHORT,
    TYPE,
)
from nbprov.clouds.word_patterns import word_pattern
from nbprov.model.failures import Cause, Scope


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
        rf"\b(?:requests?|quer(?:y|ies)|reads?|writes?|operations?|mutations?|calls?)\b{GAP}{{0,40}}"
        r"\bper (?:second|minute|100 seconds|hour)",
        Cause.RATE_LIMIT,
        _GENERAL | {Cause.QUOTA},
    ),
    _row(
        r"requires? a quota[ _-]?project|quota[ _-]?project\b.{0,40}(?:not set|missing|required)",
        Cause.CREDENTIALS,
        _OPEN | {Cause.PERMISSION, Cause.BAD_REQUEST},
    ),
    _row(
        r"(?:account|e-?mail|phone|identity) (?:address |number )?(?:is |has |was )?(?:not |un)"
        r"(?:been |yet )?verified|verify your (?:account|e-?mail|phone|identity)",
        Cause.PERMISSION,
        _OPEN | {Cause.BAD_REQUEST},
        Scope.ACCOUNT,
    ),
    # ---- money, and accounts that were closed
    _row(
        r"(?:insufficient|not (?:have )?(?:enough|sufficient)|low|no|negative|out of|zero) "
        r"(?:account |prepaid )?(?:funds|balance|credits?|money)\b|"
        r"(?:balance|funds|credits?) (?:is |are )?(?:too low|not enough|insufficient|exhausted|"
        rf"depleted|negative)|balance {GAP}{{0,30}}(?:below|under|less than)|"
        r"positive balance|add (?:more |some )?(?:funds|credits?)|"
        r"\$ ?\d[\d.,]* (?:left )?(?:in|on) (?:your|the) (?:account|wallet)|minimum balance|"
        r"at least (?:one|1) hour.{0,40}(?:credit|fund|balance|runtime)|"
        r"absent billing account|check (?:the |your )?billing account|"
        rf"billing (?:account )?{GAP}{{0,60}}(?:disabled|not enabled|"
        r"must be enabled|closed|"
        r"not found|not open|not active|delinquent|to be enabled)|billing has not been enabled|"
        r"billing address|(?:valid|update your|add a|missing|declined|failed) payment|"
        r"payment (?:method|instrument|required|information|failed|declined)|non-?payment|"
        r"unpaid|past due|overdue|credit card|"
        r"(?<!service )(?:\b(?:account|consumer|project|subscription|team|organization)\b)"
        rf"(?! currently being){GAP}{{0,60}}\b(?:suspended|banned|blocked|locked|deactivated|"
        r"is closed|been closed|inactive|delinquent|on hold|restricted due)|"
        r"\b(?:user|team) (?:has been |is )(?:banned|suspended|blocked)|"
        rf"(?<!service )\baccount (?:for {GAP}{{0,60}})?(?:is |has been )?"
        r"(?:administratively )?disabled|"
        r"administratively disabled for this account",
        Cause.BALANCE,
        _GENERAL | _STOCK | {Cause.NOT_OFFERED, Cause.CREDENTIALS},
    ),
    # ---- limits of one type of machine are no quotas
    _row(
        rf"limit{GAP}{{0,40}} for (?:the|this|that) (?:type of instance|instance type|"
        r"machine type)",
        Cause.BAD_REQUEST,
        _LOST | {Cause.QUOTA},
        Scope.OFFER,
    ),
    # ---- limits of what one request may hold are no quotas
    _row(
        rf"\b(?:characters?|bytes)\b{GAP}{{0,30}}\blimit|\blimit{GAP}{{0,30}}\b(?:characters?|"
        r"bytes)\b|(?:number of|exposed|too many)(?: [\w-]+){0,2} (?:ports?|labels?|tags?|"
        rf"variables?|metadata|filters?)\b|(?:disk|volume) size(?!.{{0,60}}quota){GAP}{{0,30}}"
        r"(?:exceed|larger|"
        r"greater|too large)",
        Cause.BAD_REQUEST,
        _LOST,
    ),
    # ---- limits of the account
    _row(
        rf"{QUOTA}.{{0,80}}(?:exceed|reach|insufficient|not enough|too low|allows? for|limit|"
        r"exhausted|allocated|used up|consumed)|"
        r"(?:exceed\w{0,4}|over|reach\w{0,4}|insufficient|(?:not|n't) (?:have )?enough|increase|"
        rf"no\b|above|beyond).{{0,60}}{QUOTA}|"
        r"(?:limit|maximum) (?:on|of|for) the (?:total )?number of|maximum number of (?!tags)|"
        r"(?:exceed(?:ed|s|ing)?|reach(?:ed|es)?|over|hit|more \w+ \w+ than|above) (?:your|the|"
        r"its|our|an?)(?: [\w-]+){0,6} limit|limit (?:was|has been|is|of [\d.]+ \w+ is) "
        r"(?:exceeded|reached)|limit[ -]?exceeded|exceeded limit|"
        r"spend(?:ing)? ?limit|hourly (?:spend )?limit|than your (?:current )?\w+ limit|"
        rf"contact (?:us\b|support){GAP}{{0,30}} (?:increase|raise) (?:your|the) limit",
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
        rf"tag polic|tags? {GAP}{{0,60}}(?:non-?complian|not complian|are required|is required)|"
        r"(?:non-?complian\w*|required) tags?\b",
        Cause.BAD_REQUEST,
        _GENERAL,
        Scope.ACCOUNT,
    ),
    # ---- what a type cannot do beside what it is bought for says nothing of the type
    _row(
        r"(?:placement groups?|hibernation|enclaves?)\b.{0,80}not (?:supported|available)",
        Cause.BAD_REQUEST,
        _LOST | _STOCK | {Cause.NOT_OFFERED},
        Scope.OFFER,
    ),
    _row(
        r"no matching manifest|manifest unknown|manifest for \S+ not found|pull access denied",
        Cause.BAD_REQUEST,
        _LOST | {Cause.NOT_OFFERED},
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
        rf"{PLACE}{GAP}{{0,60}}(?:{NOT}[ -]?(?:been )?(?:enabled|activated|opted)|disabled for)|"
        rf"{NOT} activated in this region|enable the region|opt(?:ed)?[ -]in to (?:the|this) "
        r"region",
        Cause.PERMISSION,
        _GENERAL | {Cause.CREDENTIALS, Cause.BALANCE, Cause.NOT_OFFERED},
        Scope.REGION,
    ),
    _row(
        rf"(?:access to|cannot access|not (?:authori[sz]ed|allowed|permitted) (?:for|in|to use)|"
        rf"denied (?:in|for)|restricted (?:in|from)|prohibited in)\b{GAP}{{0,40}}"
        rf"(?:{PLACE}|pool\b)|{BARRED}{GAP}{{0,60}} (?:in|to|from) {GAP}{{0,20}}{PLACE}|"
        rf"{PLACE}{GAP}{{0,60}}(?:not allowed|is restricted|access is unauthorized|not permitted|"
        r"not accessible)",
        Cause.PERMISSION,
        _OPEN | {Cause.BAD_REQUEST},
        Scope.REGION,
    ),
    _row(
        rf"(?:access to|cannot access|not (?:authori[sz]ed|allowed|permitted) (?:for|to use))\b"
        rf"{GAP}{{0,40}}(?:{TYPE}|\bgpu\b)|{BARRED}{GAP}{{0,30}}(?:{TYPE}|\bgpu|instances)|"
        rf"(?:{TYPE}|\bgpus?\b|machine|instance){GAP}{{0,60}}(?:restricted|reserved|limited|"
        rf"only available|available only) (?:to|for) {GAP}{{0,30}}"
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
        rf"{SHORT}{GAP}{{0,80}}\b(?:all|any|every) (?:availability )?zones?\b|"
        rf"\bregion '?[\w/-]+'? (?:does )?{SHORT}|\bregion '?[\w/-]+'? is (?:currently )?out of",
        Cause.CAPACITY,
        _GENERAL | {Cause.QUOTA, Cause.NOT_OFFERED, Cause.RATE_LIMIT},
        Scope.REGION,
    ),
    _row(
        rf"{SHORT}|(?:\bnot|n't|n’t) have(?: [\w.-]+){{0,3}} (?:capacity|stock)\b|"
        rf"{PLACE}{GAP}{{0,40}} (?:under|in|for) maintenance|"
        rf"(?:storage|disk|cluster)\b{GAP}{{0,40}} is full|"
        rf"insufficient{GAP}{{0,50}}{GOODS}\b|insufficient[-_ ]?capacity|"
        rf"\b(?:out of|no|lack of|lacks|short of|without)(?: [\w.-]+){{0,4}} "
        rf"(?:capacity|stock|resources)\b|\bno {GOODS}\W*$|\bout of(?: [\w.-]+){{0,3}} gpus|"
        rf"find (?:a|any) {GOODS}\b(?! (?:image|type|with id|named))|"
        rf"out[- ]of[- ]stock|stock-?_?out|sold out|"
        rf"(?:pool|capacity|zone|region|reservation)\b{GAP}{{0,80}}\b(?:is |are |been )?"
        rf"(?:exhausted|empty|depleted)\b|ran out of (?!time|memory)|"
        rf"pool_exhausted|"
        rf"\b(?:no|none of the)(?: longer)?(?: any)?(?: [\w.-]+){{0,4}} {GOODS}\b"
        rf"(?: [\w.-]+){{0,6}} (?:available|free|left)\b|no available {GOODS}|"
        rf"{GOODS}\b{GAP}{{0,60}}(?:currently|temporarily|right now)\b{GAP}{{0,20}}"
        rf"(?:unavailable|not available|out of)|"
        rf"(?:currently|temporarily) (?:unavailable|not available|out) in|"
        rf"(?:\bgpus?\b|{TYPE}|machine|instance|capacity){GAP}{{0,60}} (?:is|are) (?:currently )?"
        rf"unavailable|capacity is (?:currently )?not available|does not have the resources|"
        rf"no more [\w.-]+ (?:available|left)|no(?: [\w.-]+){{0,2}} {GOODS} (?:were |was )?found|"
        rf"\b(?:machine|host|server|node)\b(?! types?){GAP}{{0,40}} is not available|"
        rf"supply[ _-]?constraint|at capacity|fully (?:booked|utili[sz]ed|allocated|used|consumed)|"
        rf"(?:all|every) {GOODS}(?: [\w.-]+){{0,4}} (?:are|is) "
        r"(?:in use|busy|taken|rented)|already been rented",
        Cause.CAPACITY,
        _GENERAL | {Cause.QUOTA, Cause.NOT_OFFERED, Cause.RATE_LIMIT},
    ),
    # ---- a type or a place that does not exist, or does not exist there
    _row(
        rf"{TYPE}{GAP}{{0,100}}(?:{MISSING}|not (?:currently )?(?:supported|available|offered|"
        rf"sold|valid)|unsupported|unavailable|deprecated|retired|discontinued|no longer)|"
        rf"(?:{MISSING}|unsupported|not support\w*)(?: (?!field|param)[\w'\".-]+){{0,4}} {TYPE}|"
        rf"{TYPE}{GAP}{{0,60}}(?:only available|available only) (?:with|through|via|as|in)\b|"
        rf"/(?:machinetypes|acceleratortypes|disktypes)/[^ ]* was not found|"
        rf"for instancetype\b|(?:invalid|unknown|unsupported) gpu|"
        rf"\bgpus?\b(?![-/']){GAP}{{0,60}}(?:{MISSING}|not (?:supported|offered|sold))",
        Cause.NOT_OFFERED,
        _LOST | _STOCK | {Cause.BAD_REQUEST, Cause.PERMISSION},
    ),
    _row(
        rf"(?:{MISSING}|unsupported) {PLACE}|{PLACE}[^.:]{{0,60}}(?:{MISSING}|not (?:offered|"
        rf"sold|supported|available|a valid)|deprecated|turned down)|"
        rf"/(?:zones|regions)/[\w-]+'? was not found|not (?:offered|sold) in \S+-\S+|"
        rf"not (?:supported|available|offered|sold) (?:in|at|by) (?:your |the |this |that |any of "
        rf"the )?(?:requested |selected |specified )?(?:{PLACE}|country)",
        Cause.NOT_OFFERED,
        _LOST | _STOCK | {Cause.BAD_REQUEST, Cause.PERMISSION},
    ),
    # ---- something of the request that is not in this region, or no longer
    _row(
        rf"{IMAGE}.{{0,100}}(?:{MISSING}|deprecated|obsolete|disabled|deregistered|not "
        rf"available|pending|can ?not be used|is deleted)|{MISSING}{GAP}{{0,30}} {IMAGE}",
        Cause.BAD_REQUEST,
        _LOST | {Cause.NOT_OFFERED, Cause.BAD_REQUEST},
        Scope.REGION,
    ),
    _row(
        rf"{NETWORK}.{{0,100}}(?:{MISSING}|not in (?:the|a|this)|in an invalid state|not "
        rf"accessible|different (?:network|vpc|region|zone|project)|must (?:exist|be) in|"
        rf"(?:cannot|can't|can not|not) be (?:attached|mounted))|"
        rf"(?:{MISSING}|not a valid|no(?: default)?|missing)\b{GAP}{{0,30}} {NETWORK}|"
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
        rf"different|other|a new)(?: [\w-]+){{0,2}} (?:{PLACE}|{GOODS}|{TYPE}|"
        r"(?<!market )type|size)",
        Cause.CAPACITY,
        _LOST,
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
        rf"(?:api ?key|token|credentials?|signature|access key|secret key)\b{GAP}{{0,60}}"
        r"(?:invalid|expired|revoked|disabled|not valid|deleted|missing|malformed|incorrect|"
        r"not found|do(?:es)? not exist)|"
        r"(?:invalid|expired|missing|revoked|bad|incorrect|malformed)(?: [\w-]+){0,3} "
        r"(?:api ?key|token|credentials?|signature|grant)|unauthenticated|authentication (?:failed"
        r"|is required|required|error|credential)|login required|not authenticated|"
        rf"(?:unable to|could not|not able to) (?:locate|load|validate){GAP}{{0,40}}credentials|"
        r"clock|current time is too|please check your api key",
        Cause.CREDENTIALS,
        _OPEN | {Cause.PERMISSION, Cause.BAD_REQUEST},
    ),
    _row(
        r"\bpermissions?\b|not authori[sz]ed|unauthori[sz]ed|not allowed to|access (?:is )?denied|"
        r"forbidden|prohibited|org(?:ani[sz]ation)?(?:'s)? polic|constraints?/|service control "
        rf"polic|\brole\b{GAP}{{0,30}}required",
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
