// The clusters table: what runs, what it costs, its guards, and buttons to end it.

import { costAt, DASH, duration, makeClock, usd } from "./format.js";
import { keepFocus, make, makeBadge, makeRoot, makeStatus, patchList, setText } from "./dom.js";
import { connect } from "./link.js";
import { makeFacts } from "./facts.js";
import { makeBudgets } from "./budgets.js";
import { makeDayCosts } from "./day_costs.js";
import { makeMarketTable } from "./market_rows.js";
import { makeConfirmButton } from "./confirm.js";
import { makeLoad } from "./machine_load.js";
import { guardLines } from "./guard_clocks.js";
import { makeTasks } from "./cluster_tasks.js";

/** @typedef {import("./types").ClusterState} ClusterState */
/** @typedef {import("./types").ClustersState} ClustersState */

const TICK_MS = 1000;
const LOOK_MS = 5000;
const COLUMNS = [
  "name",
  "state",
  "place",
  "type",
  "nodes",
  "uptime",
  "cost so far",
  "$/h",
  "guards",
  "commands",
];
/** @type {Record<string, string>} */
const CLASSES = {
  name: "nbprov-strong",
  place: "nbprov-place",
  nodes: "nbprov-number nbprov-nodes",
  type: "nbprov-wide",
  uptime: "nbprov-number nbprov-wide",
  "cost so far": "nbprov-number",
  "$/h": "nbprov-number nbprov-hourly",
  guards: "nbprov-guards",
  commands: "nbprov-commands",
};

/** @type {import("@anywidget/types").Render<import("./types").Traits<ClustersState>>} */
function render({ model, el }) {
  const controller = new AbortController();
  const { signal } = controller;
  const clock = makeClock();
  const root = makeRoot(model, el, "Clusters", signal);
  const title = make("div", { class: "nbprov-title" });
  const status = makeStatus();
  const body = make("tbody");
  const head = make(
    "tr",
    {},
    ...COLUMNS.map((c) => make("th", { scope: "col", class: CLASSES[c] ?? "" }, c)),
  );
  const table = make(
    "table",
    { class: "nbprov-list", "aria-label": "Clusters" },
    make("thead", {}, head),
    body,
  );
  const list = make("div", { class: "nbprov-scroll" }, table);
  const foot = make("div", { class: "nbprov-foot" }, "* simulated: you pay $0");
  const facts = makeFacts();
  const budgets = makeBudgets();
  const days = makeDayCosts();
  const market = makeMarketTable();
  root.append(title, facts.figures, facts.note, list, foot);
  root.append(budgets.element, days.element, market.element, facts.sections, status);

  /** @type {Map<string, ReturnType<typeof makeCluster>>} */
  const shown = new Map();
  let state = model.get("state");
  const tick = () => {
    for (const cluster of state.clusters)
      shown.get(cluster.key)?.tick(cluster, state.now, clock.now());
    facts.tick(state.now, clock.now());
    budgets.tick(state.now, clock.now());
    days.tick(state.now, clock.now());
    market.tick(clock.now());
  };
  const show = (/** @type {ClustersState} */ given, /** @type {number} */ age) =>
    keepFocus(root, () => draw(given, age));
  const draw = (/** @type {ClustersState} */ given, /** @type {number} */ age) => {
    state = given;
    clock.set(state.now + age);
    setText(title, state.heading);
    list.hidden = !state.clusters.length;
    foot.hidden =
      !state.clusters.some((c) => c.simulated) && !state.figures?.some((f) => f.simulated);
    facts.show(state.figures ?? [], state.sections ?? [], state.day_began ?? 0);
    budgets.show(state.budgets ?? []);
    days.show(state.days ?? { days: [], clouds: [] });
    market.show(state.places ?? [], state.more_places ?? "");
    patchList(
      body,
      shown,
      state.clusters,
      (c) => c.key,
      (c) => makeCluster(c, signal, link.send, link.view),
    );
    for (const cluster of state.clusters) shown.get(cluster.key)?.show(cluster, state.actions);
    setText(status, "");
    tick();
  };
  const link = connect(model, signal, {
    root,
    state: show,
    seen() {
      tick();
      look();
    },
    notice(text) {
      setText(status, text);
      for (const view of shown.values()) view.release();
    },
    tasks: (name, found, problem) => clusterOf(name)?.tasks.list(found, problem),
    output: (name, id, text) => clusterOf(name)?.tasks.tell(id, text),
    isLive: () => state.figures !== undefined || state.clusters.some((c) => c.can_down),
  });
  // The machine of a lost race has the name of its cluster too, and does nothing.
  const clusterOf = (/** @type {string} */ name) => {
    const cluster = state.clusters.find((c) => c.name === name && c.state === "running");
    return cluster && shown.get(cluster.key);
  };
  // The kernel asks the machines, and renews a dashboard, only while a person sees them.
  const look = () => {
    const isWanted = state.figures || state.clusters.some((c) => c.state === "running");
    if (link.isSeen() && isWanted) link.look();
  };
  // What nobody sees is not drawn: it catches up when it is seen again.
  const timers = [setInterval(() => link.isSeen() && tick(), TICK_MS), setInterval(look, LOOK_MS)];
  signal.addEventListener("abort", () => timers.forEach(clearInterval));
  show(state, 0);
  return () => controller.abort();
}

/**
 * @param {ClusterState} first
 * @param {AbortSignal} signal
 * @param {(message: import("./types").ToKernel) => void} send
 * @param {string} view
 */
function makeCluster(first, signal, send, view) {
  const cells = COLUMNS.map((c) => make("td", { class: CLASSES[c] ?? "" }));
  const [name, state, place, kind, nodes, uptime, cost, hourly, guards, commands] =
    /** @type {HTMLElement[] & { length: 10 }} */ (cells);
  const badge = makeBadge();
  const why = make("div", { class: "nbprov-why" });
  const confirmed = make("div", { class: "nbprov-why" });
  state.append(badge.element, why, confirmed);
  const where = make("div");
  const load = makeLoad();
  const loadRow = make(
    "tr",
    { class: "nbprov-load" },
    make("td", { colspan: String(COLUMNS.length) }, load.element),
  );
  const label = make("span");
  const tasks = makeTasks(first.name, COLUMNS.length, signal, (kind, id) =>
    send({ type: "tasks", name: shown.name, kind, id, view }),
  );
  name.append(label, tasks.button);
  const kindBelow = make("div", { class: "nbprov-why nbprov-narrowest" });
  const guardsBelow = make("div", { class: "nbprov-why nbprov-narrow" });
  place.append(where, kindBelow, guardsBelow);
  let asked = "";
  /** @type {ClusterState} */
  let shown = first;
  /** @type {string[]} */
  let allowed = [];

  const simple = (/** @type {"stop" | "start"} */ type, /** @type {string} */ words) => {
    const button = make(
      "button",
      { type: "button", class: "nbprov-button", "aria-label": `${words} ${first.name}` },
      words,
    );
    button.addEventListener("click", () => press(type), { signal });
    return button;
  };
  const stop = simple("stop", "Stop");
  const start = simple("start", "Start");
  const down = makeConfirmButton({
    words: "Down",
    confirm: "Really down?",
    signal,
    onPress: () => press("down"),
  });
  commands.append(make("div", { class: "nbprov-buttons" }, stop, start, down.element));

  /** @param {"stop" | "start" | "down"} type */
  function press(type) {
    asked = type;
    update();
    send({ type, name: shown.name });
  }
  const update = () => keepFocus(commands, draw);
  function draw() {
    stop.hidden = !(shown.can_stop && allowed.includes("stop"));
    start.hidden = !(shown.can_start && allowed.includes("start"));
    down.element.hidden = !(shown.can_down && allowed.includes("down"));
    stop.disabled = start.disabled = asked !== "";
    down.setBusy(asked === "down");
  }
  return {
    elements: [make("tr", {}, ...cells), loadRow, tasks.row],
    tasks,
    /**
     * @param {ClusterState} cluster
     * @param {string[]} actions
     */
    show(cluster, actions) {
      if (cluster.state !== shown.state) asked = "";
      shown = cluster;
      allowed = actions;
      setText(label, cluster.name);
      tasks.show(cluster.state === "running" && actions.includes("tasks"));
      stop.setAttribute("aria-label", `Stop ${cluster.name}`);
      start.setAttribute("aria-label", `Start ${cluster.name}`);
      badge.show(cluster.look);
      setText(why, cluster.reason);
      setText(where, cluster.place);
      setText(
        kind,
        (cluster.nodes > 1 ? `${cluster.nodes} × ` : "") +
          cluster.instance_type +
          (cluster.market === "spot" ? " spot" : ""),
      );
      setText(kindBelow, kind.textContent ?? "");
      setText(nodes, cluster.nodes ? String(cluster.nodes) : DASH);
      setText(hourly, cluster.hourly ? usd(cluster.hourly) : DASH);
      loadRow.hidden = !cluster.load.length;
      load.show(cluster.name, cluster.load);
      update();
    },
    /** Enable the buttons again, because the kernel refused the request. */
    release() {
      asked = "";
      update();
    },
    /**
     * @param {ClusterState} cluster
     * @param {number} at
     * @param {number} now
     */
    tick(cluster, at, now) {
      const { clocks, notes } = cluster;
      const left = clocks.length ? guardLines(clocks, notes, now) : cluster.guards;
      setText(guards, left);
      setText(guardsBelow, left);
      setText(uptime, duration(cluster.uptime + (cluster.hourly ? now - at : 0)));
      setText(
        cost,
        usd(costAt(cluster.cost, cluster.hourly, at, now)) + (cluster.simulated ? "*" : ""),
      );
      setText(
        confirmed,
        cluster.confirmed === null
          ? "not confirmed yet"
          : `confirmed ${duration(now - cluster.confirmed)} ago`,
      );
    },
  };
}

export default { render };
