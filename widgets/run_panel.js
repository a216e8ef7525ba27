// The run panel: one launch from its plan to its cluster, live.

import { costAt, makeClock, usd } from "./format.js";
import { makeAttempts } from "./run_attempts.js";
import { makeLanes } from "./run_lanes.js";
import { makeOpenings } from "./run_openings.js";
import { headline, outlook } from "./run_outlook.js";
import { keepFocus, linked, make, makeBadge, makeRoot, makeStatus, setText, setVerbatim } from "./dom.js";
import { makeFilterTools } from "./filter_tools.js";
import { makeGrid } from "./grid.js";
import { connect } from "./link.js";
import { makeConfirmButton } from "./confirm.js";
import { copy } from "./clipboard.js";
import { columnOf, sameMachines } from "./table.js";

/** @typedef {import("./types").RunState} RunState */

const ROWS_WAITING = 8;
const ROWS_RUNNING = 6;
const TICK_MS = 1000;
const WAIT = "Wait 1 h for stock";
const CELL = "copied: paste it into a cell";
const PASTE = "copied: paste it into the cell, in place of what it changes";
/** @type {import("@anywidget/types").Render<import("./types").Traits<RunState>>} */
function render({ model, el }) {
  const controller = new AbortController();
  const { signal } = controller;
  const clock = makeClock();
  const root = makeRoot(model, el, "Provision", signal);
  const head = makeHead();
  const status = makeStatus();
  const facts = make("div", { class: "nbprov-facts" });
  const buttons = makeButtons(
    signal,
    (type) => {
      const { name } = state;
      if (type === "cell") void copy(`%%on ${name}\n`).then(() => say("the cell is copied"));
      else if (type === "ssh") link.send({ type, name, view: link.view });
      else if (type === "down" || type === "stop") link.send({ type, name });
      else link.send({ type });
    },
    (isBusy) => openings.setBusy(isBusy),
  );
  const say = (/** @type {string} */ text) => {
    repeat(false);
    setText(status, text);
    showNews();
  };
  const showNews = () => {
    const isTold = status.textContent && !status.classList.contains("nbprov-quiet");
    news.classList.toggle("nbprov-quiet", next.hidden && !isTold);
  };
  /**
   * Hide the status line where the first line below says the same: for eyes the one, and for
   * screen readers the other, so that everybody is told once.
   * @param {boolean} isRepeated
   */
  const repeat = (isRepeated) => {
    status.classList.toggle("nbprov-quiet", isRepeated);
    facts.firstElementChild?.setAttribute("aria-hidden", String(isRepeated));
  };
  const plan = makePlan(signal, (ranks) =>
    link.send({ type: "prefer", ranks, version: link.drawn() }),
  );
  const attempts = makeAttempts(signal, (key) =>
    link.send({ type: "console", key, view: link.view }),
  );
  const lanes = makeLanes();
  const next = make("div", { class: "nbprov-outlook" });
  const news = make("div", { class: "nbprov-news" }, status, next);
  const openings = makeOpenings(
    signal,
    (words) => {
      buttons.ask("widen");
      link.send({ type: "widen", words });
    },
    (text) => copy(text).then(() => say(text.includes("%nbprov") ? CELL : PASTE)),
  );
  const error = make("pre", { class: "nbprov-error", hidden: true });
  const log = make("pre", { class: "nbprov-log", hidden: true });
  const bar = make("div", { class: "nbprov-bar" }, facts, buttons.element);
  root.append(head.element, news, log, bar, openings.element, error);
  root.append(lanes.element, attempts.element, plan.element);

  let state = model.get("state");
  let announced = "";
  const tick = () => {
    const now = clock.now();
    head.tick(state, now);
    attempts.tick(state, now);
    lanes.tick(state, now);
    setText(next, outlook(state, now));
    next.hidden = !next.textContent;
    showNews();
  };
  /**
   * @param {RunState} given
   * @param {number} age
   */
  const show = (given, age) => {
    state = given;
    clock.set(state.now + age);
    head.show(state);
    const told = state.message || (state.is_final && state.summary[0]) || "";
    // Of the two, the longer one.
    const longer = state.summary.find((line) => line.startsWith(told));
    const words = (told && longer) || told;
    const isNews = words !== announced;
    // What was said of a copy stays until there is something new.
    if (isNews) setText(status, words);
    announced = words;
    showLines(
      facts,
      state.is_final
        ? [
            ...state.summary,
            state.earlier,
            state.hint && state.state !== "ready" ? `next: ${state.hint}` : "",
          ]
        : [state.waiting, state.plan.consent, `guards: ${state.plan.guards}`, ...state.notes, state.earlier],
    );
    facts.classList.toggle("nbprov-summary", state.is_final);
    if (isNews || status.textContent === words)
      repeat(state.is_final && longer !== undefined && longer === state.summary[0]);
    buttons.show(state);
    attempts.show(state);
    lanes.show(state);
    setVerbatim(log, state.log.join("\n"));
    log.hidden = !state.log.length;
    openings.show(state.openings);
    setText(error, state.error);
    error.hidden = !state.error;
    plan.show(state);
    bar.hidden = !facts.childElementCount && buttons.element.hidden;
    if (state.version) link.want(state.version);
    tick();
  };
  const link = connect(model, signal, {
    root,
    state: show,
    table: plan.setTable,
    rows: plan.rebuild,
    notice(text) {
      say(text);
      buttons.release();
    },
    copy: (text, words) => void copy(text).then(() => say(words)),
    console: attempts.tell,
    isLive: () => !state.is_final,
  });
  const timer = setInterval(() => (state.hourly || !state.is_final) && tick(), TICK_MS);
  signal.addEventListener("abort", () => clearInterval(timer));
  show(state, 0);
  return () => controller.abort();
}

/** The first line: name, state and cost. */
function makeHead() {
  const name = make("span", { class: "nbprov-name" });
  const badge = makeBadge();
  const spent = make("span", { class: "nbprov-amount" });
  const rate = make("span", { class: "nbprov-rate" });
  const cost = make("span", { class: "nbprov-cost" }, spent, rate);
  const more = make("span", { class: "nbprov-rate" });
  const element = make("div", { class: "nbprov-header" }, name, badge.element, more, cost);
  return {
    element,
    /** @param {RunState} state */
    show(state) {
      setText(name, state.name || "provision");
      badge.show(state.look);
      cost.hidden = !state.attempts.length;
      setText(
        rate,
        (state.hourly ? ` · ${usd(state.hourly)}/h` : "") +
          (state.simulated ? " · simulated: you pay $0" : ""),
      );
    },
    /**
     * @param {RunState} state
     * @param {number} now
     */
    tick(state, now) {
      setText(more, headline(state, now));
      const isOver = state.is_final && !state.hourly;
      setText(
        spent,
        `${usd(costAt(state.cost, state.hourly, state.now, now))}${isOver ? "" : " so far"}`,
      );
    },
  };
}

/** @typedef {"launch" | "cancel" | "again" | "wait" | "longer" | "try" | "stop" | "down"} Press */

/** The buttons and what they say once they are pressed. @type {[Press, string, string][]} */
const PRESSES = [
  ["launch", "Launch", "Launching …"],
  ["cancel", "Cancel", "Cancelling …"],
  ["again", "Launch again", "Launching again …"],
  ["wait", WAIT, "Launching again …"],
  ["try", "Try now", "Trying …"],
  ["longer", "Wait 1 h longer", "Waiting longer …"],
  ["stop", "Stop", "Stopping …"],
];

/**
 * @param {AbortSignal} signal
 * @param {(type: Press | "ssh" | "cell") => void} press
 * @param {(isBusy: boolean) => void} onBusy told whether a press waits for its answer
 */
function makeButtons(signal, press, onBusy) {
  const simple = (/** @type {string} */ words, /** @type {() => void} */ onClick) => {
    const button = make("button", { type: "button", class: "nbprov-button" }, words);
    button.addEventListener("click", onClick, { signal });
    return button;
  };
  const asking = PRESSES.map(([type, words]) => simple(words, () => pressed(type)));
  asking[0]?.classList.add("nbprov-primary");
  const cell = simple("Copy next cell", () => press("cell"));
  const ssh = simple("Copy ssh", () => press("ssh"));
  const down = makeConfirmButton({
    words: "Down",
    confirm: "Really down?",
    signal,
    onPress: () => pressed("down"),
  });
  const all = [...asking, cell, ssh, down.element];
  const element = make("div", { class: "nbprov-buttons" }, ...all);
  /** @type {RunState | undefined} */
  let state;
  let asked = "";

  /** @param {Press} type */
  function pressed(type) {
    ask(type);
    press(type);
  }
  /** @param {string} type */
  function ask(type) {
    asked = type;
    update();
  }
  const update = () => {
    keepFocus(element, draw);
    onBusy(asked !== "");
  };
  function draw() {
    if (!state) return;
    const { needs_launch, is_final, waiting } = state;
    const is = (/** @type {string[]} */ ...names) => names.includes(state?.state ?? "");
    const isRunning = is("ready") && state.is_running;
    const shown = {
      launch: needs_launch,
      cancel: needs_launch || is("launching", "waiting"),
      again: is_final && !is("ready"),
      wait: is("failed"),
      try: is("waiting"),
      longer: waiting !== "",
      stop: isRunning,
      ssh: isRunning,
      down: is("ready"),
    };
    const isHidden = (/** @type {keyof typeof shown} */ type) =>
      !(shown[type] && state?.actions.includes(type));
    PRESSES.forEach(([type, words, busy], at) => {
      const button = /** @type {HTMLButtonElement} */ (asking[at]);
      button.hidden = isHidden(type);
      setText(button, asked === type ? busy : words);
      // What is asked for can still be cancelled.
      button.disabled = type === "cancel" ? asked === type : asked !== "";
    });
    ssh.hidden = isHidden("ssh");
    down.element.hidden = isHidden("down");
    cell.hidden = !isRunning;
    down.setBusy(asked === "down");
    element.hidden = all.every((button) => button.hidden);
  }
  return {
    element,
    ask,
    /**
     * Update the buttons. A press is answered once the run has another state.
     * @param {RunState} given
     */
    show(given) {
      const isOther =
        given.run_id !== state?.run_id ||
        given.state !== state?.state ||
        given.needs_launch !== state?.needs_launch ||
        given.waiting !== state?.waiting ||
        given.is_running !== state?.is_running;
      if (isOther) asked = "";
      state = given;
      update();
    },
    /** Enable the buttons again, because the kernel has answered a press. */
    release() {
      ask("");
    },
  };
}

/**
 * The plan's price table, under a heading that opens and closes it. Before Launch, rows that are
 * chosen can be put first.
 * @param {AbortSignal} signal
 * @param {(ranks: number[]) => void} onPrefer
 */
function makePlan(signal, onPrefer) {
  /** @type {number[]} */
  let chosen = [];
  let canPrefer = false;
  let preferred = 0;
  /** @type {import("./types").Table | undefined} */
  let table;
  const grid = makeGrid({
    label: "Plan",
    signal,
    rows: ROWS_WAITING,
    tools: makeFilterTools(signal),
    isMultiple: true,
    onPick(rows) {
      chosen = rows;
      showBar();
    },
  });
  const ranks = () => {
    const all = table && columnOf(table, "rank")?.values;
    return chosen.map((row) => all?.[row] ?? -1).filter((rank) => rank >= 0);
  };
  const makeButton = (/** @type {() => number[]} */ wanted) => {
    const button = make("button", { type: "button", class: "nbprov-button" });
    button.addEventListener("click", () => (onPrefer(wanted()), grid.unpick()), { signal });
    return button;
  };
  const first = makeButton(ranks);
  const undo = makeButton(() => []);
  setText(undo, "The plan's own order");
  const bar = make("div", { class: "nbprov-pick-bar" }, first, undo);
  const showBar = () =>
    keepFocus(bar, () => {
      const { length } = ranks();
      setText(first, length > 1 ? `Try these ${length} first` : "Try this first");
      first.hidden = !canPrefer || !length;
      undo.hidden = !canPrefer || !preferred;
      bar.hidden = first.hidden && undo.hidden;
    });
  const toggle = make("button", {
    type: "button",
    class: "nbprov-toggle",
    "aria-expanded": "true",
  });
  const notes = make("div", { class: "nbprov-notes" });
  const content = make("div", {}, grid.element, bar, notes);
  const element = make("div", { class: "nbprov-plan" }, toggle, content);
  let isOpen = true;
  let isChosen = false;
  const update = () => {
    content.hidden = !isOpen;
    toggle.setAttribute("aria-expanded", String(isOpen));
  };
  toggle.addEventListener("click", () => ((isChosen = true), (isOpen = !isOpen), update()), {
    signal,
  });
  return {
    element,
    /** @param {import("./types").Table} given */
    setTable(given) {
      // Who chose among the rows of the older table, while this one was on its way, meant machines.
      chosen = table ? sameMachines(table, chosen, given) : [];
      table = given;
      grid.setTable(given, chosen);
      showBar();
    },
    rebuild: grid.rebuild,
    /** @param {RunState} state */
    show(state) {
      if (!isChosen) isOpen = !state.attempts.length && !state.is_final;
      setText(toggle, `Plan: ${state.plan.headline}`);
      canPrefer = state.needs_launch && state.actions.includes("prefer");
      preferred = state.plan.preferred;
      showBar();
      grid.element.hidden = !state.version;
      grid.setRows(state.attempts.length ? ROWS_RUNNING : ROWS_WAITING);
      grid.setMarks(
        new Map(state.attempts.filter((a) => a.rank >= 0).map((a) => [a.rank, a.look.tone])),
      );
      showLines(notes, [...state.plan.dropped.map((d) => `left out: ${d}`), ...state.plan.notes]);
      update();
    },
  };
}

/**
 * Show the lines that are not empty.
 * @param {HTMLElement} element
 * @param {string[]} lines
 */
function showLines(element, lines) {
  const filled = lines.filter(Boolean);
  element.hidden = !filled.length;
  if (element.dataset.lines === filled.join("\n")) return;
  element.dataset.lines = filled.join("\n");
  element.replaceChildren(...filled.map((line) => make("div", {}, ...linked(line))));
}

export default { render };
