"""Deliberate bugs in five adapters. Each must fail the check that it names.

A mutant replaces a text of one file; a text that is not there exactly once is an error, so that a
changed adapter cannot make a mutant harmless.
"""

from __future__ import annotations

from dataclasses import dataclass

AWS = "nbprov/clouds/aws"
FLUFFY = "tests/plugins/fluffycloud/fluffycloud"
LAMBDA = "nbprov/clouds/lambda_cloud"
RUNPOD = "nbprov/clouds/runpod"
JSON_API = "nbprov/clouds/web/json_api.py"


@dataclass(frozen=True, slots=True)
class Mutant:
    """One bug.

    Attributes
    ----------
    cloud
        The subject whose checks run.
    what
        The bug, in a few words.
    caught_by
        The check that has to fail.
    """

    cloud: str
    what: str
    file: str
    old: str
    new: str
    caught_by: str


def aws(what: str, file: str, old: str, new: str, caught_by: str) -> Mutant:
    """A bug of the adapter of AWS, whose double tells the rules of its firewall."""
    return Mutant("aws", what, f"{AWS}/{file}", old, new, caught_by)


def fluffy(what: str, file: str, old: str, new: str, caught_by: str) -> Mutant:
    """A bug of FluffyCloud's adapter."""
    return Mutant("fluffycloud", what, f"{FLUFFY}/{file}", old, new, caught_by)


def lambda_(what: str, file: str, old: str, new: str, caught_by: str) -> Mutant:
    """A bug of Lambda's adapter."""
    return Mutant("lambda", what, f"{LAMBDA}/{file}", old, new, caught_by)


def runpod(what: str, file: str, old: str, new: str, caught_by: str) -> Mutant:
    """A bug of RunPod's adapter."""
    return Mutant("runpod", what, f"{RUNPOD}/{file}", old, new, caught_by)


LIST = """    def list(self, owner: str) -> builtins.list[Instance]:
"""
LIST_OR_NONE = """    def list(self, owner: str) -> builtins.list[Instance]:
        try:
            return self._listed(owner)
        except CloudError as error:
            if error.failure.code not in {codes}:
                raise
            return []

    def _listed(self, owner: str) -> builtins.list[Instance]:
"""
ROWS = "return [self._instance(row) for row in rows]"
FOLLOWING = 'lambda page: page["after"] and {"after": page["after"]},'
END = 'api().call("POST", "/machines/end", {"ids": [*ids]}, seconds=CALL_SECONDS)'
ORDER = '        answer = api().call(\n            "POST",\n            "/machines",\n'
OPERATION = 'str(answer["order"]), {"order": launch.key})'
POLL = '        answer = api().call("GET", f"/orders/{order}", seconds=LIST_SECONDS)\n'
POLL_REFUSED = """        try:
            answer = api().call("GET", f"/orders/{order}", seconds=LIST_SECONDS)
        except CloudError as error:
            return Refused(error.failure)
"""
EXCHANGE = "return exchange(ask, DeadlineEvent(seconds), self.most_body)"
EXCHANGE_TWICE = """try:
                return exchange(ask, DeadlineEvent(seconds), self.most_body)
            except IncompleteResponse:
                return exchange(ask, DeadlineEvent(seconds), self.most_body)"""
ADAPTER = "provisioner.py"
PAGES = "a_listing_goes_through_every_page"
BREAKS = "a_listing_that_breaks_anywhere_is_an_error"
SHUT = "only_ssh_is_open_and_only_to_the_caller"
PLACES = "a_machine_in_any_place_is_listed_and_ended"
BILLED = "every_state_that_bills_is_billed"
ODD = "a_state_nobody_knows_is_unknown_and_billed"
SECRETS = "secrets_stay_out_of_what_is_kept_and_shown"
FORGOTTEN = "a_create_whose_answer_is_lost_is_never_forgotten"
IMAGE = "an_image_is_used_or_refused"
OWNERS = "an_owner_sees_only_their_own"
OTHERS = "side_objects_of_others_are_left_alone"
COSTS = "a_machine_costs_what_its_offer_does"
QUOTED = "a_price_is_asked_again"
FETCHED = "a_fetched_list_has_the_units_of_the_catalogue"
STOCK = "stock_follows_what_is_left"
CHANGE = "a_change_that_fails_says_so"
SLEEPS = "no_call_sleeps_or_waits_in_a_loop"
LABELS = "labels_reach_the_cloud"
SENT = "a_create_that_was_never_sent_is_no_unknown_outcome"
REGION = "stock_is_of_the_place_that_was_asked_for"
NO_LIST = "a_page_without_its_list_is_an_error"
IN_WORDS = "a_create_that_failed_is_refused_in_words"
HANGS = "a_change_ends_in_time_wherever_it_hangs"
IMPORTS = "the_package_imports_nothing_before_a_call"
USES = "the_package_uses_the_model_and_the_clouds_alone"

MUTANTS: tuple[Mutant, ...] = (
    fluffy("one page of machines", ADAPTER, FOLLOWING, "lambda page: None,", PAGES),
    fluffy(
        "an empty page ends the listing",
        ADAPTER,
        FOLLOWING,
        'lambda page: page["machines"] and page["after"] and {"after": page["after"]},',
        PAGES,
    ),
    fluffy(
        "a check keeps to the limit of a listing",
        ADAPTER,
        '"/account", seconds=CHECK_SECONDS',
        '"/account", seconds=LIST_SECONDS',
        "no_call_takes_longer_than_it_says",
    ),
    Mutant(
        "fluffycloud",
        "a later page that fails ends the listing",
        JSON_API,
        '            page = self.call("GET", path, params=asked, seconds=deadline.left())\n',
        """            try:
                page = self.call("GET", path, params=asked, seconds=deadline.left())
            except CloudError:
                if found:
                    return found
                raise
""",
        BREAKS,
    ),
    Mutant(
        "gcp",
        "a row without a zone has an id that ends nothing",
        "nbprov/clouds/gcp/provisioner.py",
        'labels.last(row["zone"])',
        'labels.last(row.get("zone"))',
        "a_machine_that_lacks_a_field_is_listed_or_an_error",
    ),
    fluffy("403 is no machine", ADAPTER, LIST, LIST_OR_NONE.format(codes='("403",)'), BREAKS),
    fluffy(
        "a machine of nobody is ours",
        ADAPTER,
        'owner=row["owner"],',
        'owner=row["owner"] or "owner-1",',
        "a_machine_that_names_no_owner_is_nobodys",
    ),
    fluffy(
        "the script is in a tag, too",
        ADAPTER,
        '"tags": dict(launch.tags),',
        '"tags": {**launch.tags, "script": launch.user_data()},',
        "secrets_are_sent_where_they_are_needed_alone",
    ),
    fluffy(
        "stock that cannot be asked is there",
        ADAPTER,
        '        sizes = api().call("GET", "/sizes", seconds=STOCK_SECONDS)\n'
        "        return counting",
        '        try:\n            sizes = api().call("GET", "/sizes", seconds=STOCK_SECONDS)\n'
        "        except CloudError:\n"
        '            sizes = [{"burrow": o.region, "size": o.instance_type, "left": 9}'
        " for o in offers]\n        return counting",
        "stock_that_cannot_be_asked_is_not_told",
    ),
    fluffy(
        "machines that lack a field are skipped",
        ADAPTER,
        ROWS,
        f'{ROWS[:-1]} if {{"size", "mood", "burrow", "id"}} <= {{*row}}]',
        "a_machine_that_lacks_a_field_is_listed_or_an_error",
    ),
    fluffy(
        "a machine that wakes is ending",
        ADAPTER,
        '"carrot-wait": InstanceState.PENDING',
        '"carrot-wait": InstanceState.ENDING',
        BILLED,
    ),
    fluffy(
        "a quote of another type",
        ADAPTER,
        '(size["burrow"], size["size"]): size',
        '(size["burrow"], candidate.offer.instance_type): size',
        "a_quote_is_of_its_type_in_its_place",
    ),
    fluffy(
        "a quote that cannot be asked is the old price",
        ADAPTER,
        '        sizes = {\n            (size["burrow"]',
        '        try:\n            api().call("GET", "/sizes", seconds=CHECK_SECONDS)\n'
        "        except CloudError:\n"
        '            return Quote(candidate.offer.hourly, "old", time.time())\n'
        '        sizes = {\n            (size["burrow"]',
        "a_quote_that_cannot_be_asked_is_not_told",
    ),
    fluffy(
        "an end that is refused is silent",
        ADAPTER,
        END,
        f"try:\n                {END}\n            except CloudError as error:\n"
        '                if error.failure.code not in ("401", "403", "409"):\n'
        "                    raise",
        CHANGE,
    ),
    fluffy(
        "the timer is not sent",
        ADAPTER,
        '"end_after": launch.terminate_after,',
        '"end_after": None,',
        "what_a_cloud_can_do_is_in_its_create",
    ),
    fluffy(
        "the order is in a warning",
        ADAPTER,
        ORDER,
        '        __import__("warnings").warn(str(order))\n' + ORDER,
        SECRETS,
    ),
    fluffy("410 is no machine", ADAPTER, LIST, LIST_OR_NONE.format(codes='("410",)'), BREAKS),
    fluffy("404 is no machine", ADAPTER, LIST, LIST_OR_NONE.format(codes='("404",)'), BREAKS),
    fluffy("429 is no machine", ADAPTER, LIST, LIST_OR_NONE.format(codes='("429",)'), BREAKS),
    fluffy("500 is no machine", ADAPTER, LIST, LIST_OR_NONE.format(codes='("500",)'), BREAKS),
    fluffy(
        "an empty answer is no machine",
        ADAPTER,
        LIST,
        LIST_OR_NONE.format(codes='("odd-answer",)'),
        BREAKS,
    ),
    fluffy("one type alone", ADAPTER, ROWS, f'{ROWS[:-1]} if row["size"] == "gpu"]', PLACES),
    fluffy(
        "known types alone",
        ADAPTER,
        ROWS,
        f'{ROWS[:-1]} if row["size"] in ("gpu", "small")]',
        "a_machine_of_a_type_nobody_knows_is_listed",
    ),
    fluffy("one region alone", ADAPTER, ROWS, f'{ROWS[:-1]} if row["burrow"] == "meadow"]', PLACES),
    fluffy(
        "one region for all",
        ADAPTER,
        'Place(self.name, row["burrow"])',
        'Place(self.name, "meadow")',
        PLACES,
    ),
    fluffy(
        "a billed state is stopped",
        ADAPTER,
        '"shedding": InstanceState.RUNNING',
        '"shedding": InstanceState.STOPPED',
        BILLED,
    ),
    fluffy(
        "an unknown state is stopped",
        ADAPTER,
        'STATES.get(row["mood"], InstanceState.UNKNOWN)',
        'STATES.get(row["mood"], InstanceState.STOPPED)',
        ODD,
    ),
    fluffy(
        "an ending machine is gone",
        ADAPTER,
        '"vanishing": InstanceState.ENDING',
        '"vanishing": InstanceState.GONE',
        "gone_means_gone",
    ),
    fluffy(
        "the price of a machine in cents",
        ADAPTER,
        'hourly=usd(row["usd_per_hour"])',
        'hourly=usd(row["usd_per_hour"] * 100)',
        COSTS,
    ),
    fluffy(
        "a quote for a minute",
        ADAPTER,
        'Quote(usd(sizes[place]["usd_per_hour"])',
        'Quote(usd(sizes[place]["usd_per_hour"] / 60)',
        QUOTED,
    ),
    fluffy(
        "a fetched price for a month",
        "prices.py",
        'on_demand=price(size["usd_per_hour"])',
        'on_demand=price(size["usd_per_hour"] * 730)',
        FETCHED,
    ),
    fluffy(
        "fetched memory in MiB",
        "prices.py",
        'memory_gib=size["memory_gb"]',
        'memory_gib=size["memory_gb"] * 1024',
        FETCHED,
    ),
    fluffy(
        "a shipped price in cents",
        "vms.csv",
        "gpu,A100,1,4,16,2.0,",
        "gpu,A100,1,4,16,200.0,",
        "offers_have_the_units_of_the_catalogue",
    ),
    fluffy(
        "the script is in the operation",
        ADAPTER,
        OPERATION,
        'str(answer["order"]), {"order": launch.key, "script": launch.user_data()})',
        SECRETS,
    ),
    fluffy("the order is printed", ADAPTER, ORDER, f"        print(order)\n{ORDER}", SECRETS),
    fluffy(
        "the order is logged",
        ADAPTER,
        ORDER,
        f'        __import__("logging").getLogger("fluffy").info("%s", order)\n{ORDER}',
        SECRETS,
    ),
    fluffy("the key is shown", ADAPTER, "KEY.find().masked", "KEY.find().key", SECRETS),
    fluffy(
        "the key is in the address",
        ADAPTER,
        'params={"owner": owner},',
        'params={"owner": owner, "key": KEY.find().key},',
        SECRETS,
    ),
    fluffy(
        "a refusal repeats the script",
        ADAPTER,
        "            secrets=launch.template_values.values(),\n",
        "",
        "secrets_that_a_refusal_repeats_are_not_passed_on",
    ),
    fluffy("labels are dropped", ADAPTER, '"tags": dict(launch.tags),', '"tags": {},', LABELS),
    fluffy(
        "the login is fixed",
        ADAPTER,
        'user=row["tags"].get(LOGIN_LABEL) or images.LOGIN,',
        "user=images.LOGIN,",
        "the_login_follows_its_label",
    ),
    fluffy(
        "an image is dropped",
        ADAPTER,
        'refuse_unsupported(launch, CAPABILITIES, "FluffyCloud")',
        "pass",
        IMAGE,
    ),
    fluffy("the stock is always there", "stock.py", "if number < count:", "if False:", STOCK),
    fluffy(
        "the stock of one machine is told for any number",
        "stock.py",
        "if number < count:",
        "if number < 1:",
        "stock_is_for_so_many_machines",
    ),
    fluffy(
        "stock that is not told is none",
        "stock.py",
        "number = left.get((offer.region, offer.instance_type))",
        "number = left.get((offer.region, offer.instance_type)) or 0",
        "stock_that_is_not_told_is_not_none",
    ),
    fluffy(
        "the stock of one region is told of all",
        "stock.py",
        "Stock(at, offer.pool, level)",
        'Stock(at, offer.pool._replace(region=""), level)',
        REGION,
    ),
    fluffy(
        "the stock of one region is told of another",
        "stock.py",
        "left.get((offer.region, offer.instance_type))",
        'left.get(("meadow", offer.instance_type))',
        REGION,
    ),
    fluffy(
        "the first offer's region is asked for all",
        "stock.py",
        "left.get((offer.region, offer.instance_type))",
        "left.get(([*offers][0].region, offer.instance_type))",
        REGION,
    ),
    fluffy(
        "a page without machines is an empty one",
        ADAPTER,
        'page["machines"],',
        'page.get("machines") or [],',
        NO_LIST,
    ),
    lambda_(
        "null is no machine",
        "instances.py",
        """expect(data, list, "Lambda's list of machines")""",
        """expect(data or [], list, "Lambda's list of machines")""",
        NO_LIST,
    ),
    runpod(
        "a page without pods is an empty one", "api.py", "page[name]", "page.get(name, [])", NO_LIST
    ),
    fluffy(
        "a denied order has to say why",
        ADAPTER,
        'answer.get("body") or ""',
        'answer["body"]',
        IN_WORDS,
    ),
    fluffy(
        "no words are no words", "errors.py", 'f"FluffyCloud answered {status}"', '""', IN_WORDS
    ),
    lambda_(
        "a launch that is gone has no words",
        ADAPTER,
        '"Lambda lists no machine of this launch"',
        '""',
        IN_WORDS,
    ),
    runpod(
        "a later step of a create has no deadline",
        ADAPTER,
        "secrets.keep(api, launch, seconds=deadline.left(LOOK_SECONDS))",
        "secrets.keep(api, launch, seconds=1e6)",
        HANGS,
    ),
    aws(
        "a removal that is refused is waited for",
        "instances/side_objects.py",
        "                except CloudError as error:\n",
        "                except CloudError as error:\n                    import time\n\n"
        "                    time.sleep(1.5)\n",
        SLEEPS,
    ),
    lambda_(
        "a new key is waited for",
        "ssh_keys.py",
        "            _known[place] = name_for(owner)\n",
        "            __import__('time').sleep(0.5)\n            _known[place] = name_for(owner)\n",
        SLEEPS,
    ),
    runpod(
        "a secret that is refused is waited for",
        "secrets.py",
        '        if error.failure.code == "409":\n',
        "        if error.failure.cause is Cause.RATE_LIMIT:\n"
        "            __import__('time').sleep(1.5)\n"
        '        if error.failure.code == "409":\n',
        SLEEPS,
    ),
    aws(
        "a moved address is admitted after a pause",
        "network/security_groups.py",
        '        answer = self._session.call(region, "DescribeSecurityGroups", GroupIds=[group])\n',
        "        __import__('time').sleep(0.5)\n"
        '        answer = self._session.call(region, "DescribeSecurityGroups", GroupIds=[group])\n',
        SLEEPS,
    ),
    aws(
        "ports are opened after a pause",
        "network/security_groups.py",
        "        for pair in ports:\n            for network in ANYWHERE:\n"
        "                self._authorize(",
        "        __import__('time').sleep(0.5)\n        for pair in ports:\n"
        "            for network in ANYWHERE:\n                self._authorize(",
        SLEEPS,
    ),
    fluffy(
        "an SDK is imported with the table of errors",
        "errors.py",
        "import json\n",
        "import json\n\nimport requests\n",
        IMPORTS,
    ),
    fluffy(
        "the capabilities need an SDK",
        ADAPTER,
        "    capabilities = CAPABILITIES\n",
        "    @property\n    def capabilities(self):\n        import requests\n\n"
        "        return CAPABILITIES\n",
        IMPORTS,
    ),
    fluffy(
        "stock looks for a notebook",
        "stock.py",
        "    said = []\n",
        "    from IPython import get_ipython\n\n    said = []\n",
        USES,
    ),
    lambda_(
        "stock uses the engine by a relative name",
        "stock.py",
        "    said = []\n",
        "    from ...provisioning import engine\n\n    said = []\n",
        USES,
    ),
    runpod(
        "stock uses the notebook by a name in a text",
        "stock.py",
        "    at = time.time()\n",
        "    __import__('nbprov.notebook.extension')\n    at = time.time()\n",
        USES,
    ),
    fluffy(
        "a type that nobody knows hides all stock",
        "stock.py",
        "left.get((offer.region, offer.instance_type))",
        "left[offer.region, offer.instance_type]",
        "a_type_that_nobody_knows_is_not_in_stock",
    ),
    fluffy(
        "a start that is refused is silent",
        ADAPTER,
        '        api().call("POST", "/machines/wake", {"ids": [*ids]}, seconds=CALL_SECONDS)',
        "        try:\n"
        '            api().call("POST", "/machines/wake", {"ids": [*ids]}, seconds=CALL_SECONDS)\n'
        "        except CloudError:\n            pass",
        "a_start_that_stock_refuses_says_so",
    ),
    fluffy(
        "a fetcher without a key does not say what to do",
        "prices.py",
        'return "" if find_key(context, "FLUFFYCLOUD_KEY") else NO_KEY',
        'return "" if find_key(context, "FLUFFYCLOUD_KEY") else "no"',
        "a_fetcher_says_what_it_lacks",
    ),
    fluffy(
        "a create whose answer is lost failed",
        ADAPTER,
        "            creates=True,\n",
        "            creates=False,\n",
        FORGOTTEN,
    ),
    fluffy(
        "a 5xx to a create failed",
        "errors.py",
        "cause_of_status(status, creates=creates)",
        "cause_of_status(status, creates=False)",
        FORGOTTEN,
    ),
    Mutant(
        "fluffycloud",
        "a refused connection is unknown",
        JSON_API,
        "if failure.code in UNSENT:",
        "if False:",
        SENT,
    ),
    Mutant("fluffycloud", "a create is sent again", JSON_API, EXCHANGE, EXCHANGE_TWICE, FORGOTTEN),
    Mutant(
        "fluffycloud",
        "no deadline",
        JSON_API,
        EXCHANGE,
        "return exchange(ask, DeadlineEvent(1e6), self.most_body)",
        "no_call_takes_longer_than_it_says",
    ),
    fluffy("a poll sleeps", ADAPTER, POLL, f"        time.sleep(0.5)\n{POLL}", SLEEPS),
    fluffy(
        "a create waits for its machine",
        ADAPTER,
        "        return CreateOperation(self.name, launch.token, ",
        "        told = CreateOperation(self.name, launch.token, '', {'order': launch.key})\n"
        "        for _ in range(5):\n            self.poll(told)\n"
        "        return CreateOperation(self.name, launch.token, ",
        SLEEPS,
    ),
    fluffy(
        "an SDK is imported at once",
        "__init__.py",
        "from typing import TYPE_CHECKING\n",
        "from typing import TYPE_CHECKING\n\nimport requests\n",
        IMPORTS,
    ),
    fluffy(
        "the rest of nbprov is imported",
        "stock.py",
        "    said = []\n",
        "    from nbprov.market import observations\n\n    said = []\n",
        USES,
    ),
    fluffy(
        "ending nothing is asked",
        ADAPTER,
        f"        if ids:\n            {END}",
        f"        {END}",
        "to_end_nothing_asks_nothing",
    ),
    fluffy(
        "an end that fails is silent",
        ADAPTER,
        f"            {END}",
        f"            with __import__('contextlib').suppress(CloudError):\n                {END}",
        CHANGE,
    ),
    fluffy(
        "a poll that fails refuses",
        ADAPTER,
        POLL,
        POLL_REFUSED,
        "a_poll_that_fails_decides_nothing",
    ),
    fluffy(
        "a check that fails is a success",
        ADAPTER,
        "return CheckResult(self.name, enabled=False, problem=error.failure)",
        'return CheckResult(self.name, enabled=True, account="me")',
        "a_check_that_fails_says_so_and_raises_nothing",
    ),
    lambda_(
        "an unhealthy machine is stopped",
        "instances.py",
        '"unhealthy": InstanceState.UNKNOWN',
        '"unhealthy": InstanceState.STOPPED',
        BILLED,
    ),
    lambda_(
        "an unknown state is gone",
        "instances.py",
        "STATES.get(said, InstanceState.UNKNOWN)",
        "STATES.get(said, InstanceState.GONE)",
        ODD,
    ),
    lambda_("all owners", ADAPTER, "if machine.owner == owner]", "if machine.owner]", OWNERS),
    lambda_(
        "owners by their beginning",
        ADAPTER,
        "if machine.owner == owner]",
        "if machine.owner.startswith(owner)]",
        OWNERS,
    ),
    lambda_(
        "dollars are cents",
        "stock.py",
        "return cents * MICROS_PER_USD // 100",
        "return cents * MICROS_PER_USD",
        COSTS,
    ),
    lambda_(
        "keys of all owners",
        "ssh_keys.py",
        'if entry.get("name") == name_for(owner)\n',
        'if str(entry.get("name")).startswith(name_for(owner))\n',
        OTHERS,
    ),
    lambda_(
        "the stock is always there",
        "stock.py",
        "StockLevel.MEDIUM if offer.region in places else StockLevel.NONE",
        "StockLevel.MEDIUM",
        STOCK,
    ),
    lambda_(
        "an image is dropped",
        ADAPTER,
        "if image := images.specification(launch.image):",
        "if image := images.specification(''):",
        IMAGE,
    ),
    lambda_("labels are dropped", ADAPTER, "{**launch.tags, **own}", "own", LABELS),
    lambda_(
        "a 5xx to a create failed",
        "errors.py",
        "status in (408, *range(500, 600)) or",
        "status == 408 or",
        FORGOTTEN,
    ),
    lambda_(
        "spot is on-demand",
        ADAPTER,
        "if launch.candidate.offer.market is Market.SPOT:",
        "if not launch.token:",
        "spot_is_spot_or_refused",
    ),
    lambda_(
        "an end that fails is silent",
        ADAPTER,
        "            if (\n                error.failure.cause is not Cause.NOT_OFFERED\n",
        "            if error.failure.cause is Cause.TRANSIENT:\n                return\n"
        "            if (\n                error.failure.cause is not Cause.NOT_OFFERED\n",
        CHANGE,
    ),
    runpod(
        "one page of pods",
        "api.py",
        'if told.get("hasNextPage") else None',
        "if not told else None",
        PAGES,
    ),
    runpod(
        "a starting pod is stopped",
        "pods.py",
        '"STARTING": InstanceState.PENDING',
        '"STARTING": InstanceState.STOPPED',
        BILLED,
    ),
    runpod("all owners", ADAPTER, "if owner and pods.owner_of(pod) == owner", "if owner", OWNERS),
    runpod(
        "pods without an id are skipped",
        "api.py",
        "        if not all(isinstance(entry, dict)",
        '        entries = [entry for entry in entries if entry.get("id")]\n'
        "        if not all(isinstance(entry, dict)",
        "a_machine_that_lacks_a_field_is_listed_or_an_error",
    ),
    Mutant(
        "runpod",
        "any server is believed",
        "nbprov/clouds/web/response.py",
        "timeout=(CONNECT_SECONDS, READ_SECONDS),",
        "timeout=(CONNECT_SECONDS, READ_SECONDS), verify=False,",
        "a_server_that_does_not_prove_who_it_is_is_sent_nothing",
    ),
    runpod(
        "a quote for a minute",
        ADAPTER,
        "Quote(each * candidate.count,",
        "Quote(each // 60,",
        QUOTED,
    ),
    runpod(
        "the script is in the operation",
        ADAPTER,
        'launch.token, pod_id, {"pod": pod_id})',
        'launch.token, pod_id, {"pod": pod_id, "script": launch.user_data()})',
        SECRETS,
    ),
    runpod(
        "a create whose answer is lost failed",
        ADAPTER,
        "                creates=True,\n",
        "                creates=False,\n",
        FORGOTTEN,
    ),
    runpod(
        "spot is on-demand",
        ADAPTER,
        "if offer.market is Market.SPOT:",
        "if not launch.token:",
        "spot_is_spot_or_refused",
    ),
    Mutant(
        "runpod",
        "a create too late is sent",
        "nbprov/clouds/launch_checks.py",
        "if time.time() >= launch.answer_by > 0:",
        "if not launch.token:",
        "a_create_that_comes_too_late_is_not_begun",
    ),
    runpod(
        "an end that fails is silent",
        ADAPTER,
        "        if errors:\n            raise errors[0]\n",
        "        if not ids:\n            raise errors[0]\n",
        CHANGE,
    ),
    aws(
        "ssh is open to everybody",
        "network/security_groups.py",
        "owner, address, {SSH, ssh_port})",
        "owner, ANYWHERE[0], {SSH, ssh_port})",
        SHUT,
    ),
    aws(
        "every port is open to the caller",
        "network/security_groups.py",
        '"ToPort": ports[1],',
        '"ToPort": 65535,',
        SHUT,
    ),
    aws(
        "one region is listed",
        "instances/listing.py",
        "lambda region: self._in_one(region, filters), seconds, also=also",
        'lambda region: self._in_one(region, filters) if region == "us-east-1" else [],'
        " seconds, also=also",
        PLACES,
    ),
)
