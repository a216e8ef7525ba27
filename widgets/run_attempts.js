// The attempts of a launch as a live table.

import { duration } from "./format.js";
import { make, makeBadge, makeToggle, patchList, setText, setVerbatim } from "./dom.js";

/** @typedef {import("./types").RunState} RunState */
/** @typedef {import("./types").AttemptState} AttemptState */

const COLUMNS = ["#", "place", "type", "market", "$/h", "state", "elapsed", "reason"];
/** @type {Record<string, string>} */
const CLASSES = {
  "#": "nbprov-number",
  "$/h": "nbprov-number",
  elapsed: "nbprov-number nbprov-wide",
  market: "nbprov-wide",
  place: "nbprov-place",
  reason: "nbprov-reason",
};

const CONSOLE_SECONDS = 5;

/**
 * @param {AbortSignal} signal
 * @param {(key: string) => void} askConsole
 */
export function makeAttempts(signal, askConsole) {
  const body = make("tbody");
  const head = make(
    "tr",
    {},
    ...COLUMNS.map((c) => make("th", { scope: "col", class: CLASSES[c] ?? "" }, c)),
  );
  const table = make(
    "table",
    { class: "nbprov-list", "aria-label": "Attempts" },
    make("thead", {}, head),
    body,
  );
  const element = make("div", { class: "nbprov-scroll", hidden: true }, table);
  /** @type {Map<string, ReturnType<typeof makeAttempt>>} */
  const shown = new Map();
  return {
    element,
    /** @param {RunState} state */
    show({ attempts, actions }) {
      element.hidden = !attempts.length;
      patchList(
        body,
        shown,
        attempts,
        (a) => a.key,
        (a) => makeAttempt(a, signal, () => askConsole(a.key)),
      );
      const canAsk = actions.includes("console");
      for (const attempt of attempts) shown.get(attempt.key)?.show(attempt, canAsk);
    },
    /**
     * Show what the machine of an attempt wrote on its console.
     * @param {string} key
     * @param {string} text
     */
    tell(key, text) {
      shown.get(key)?.tell(text);
    },
    /**
     * @param {RunState} state
     * @param {number} now
     */
    tick(state, now) {
      const end =
        state.is_final && !state.attempts.some((a) => a.state === "ending") ? state.now : now;
      for (const attempt of state.attempts) shown.get(attempt.key)?.tick(attempt, end);
    },
  };
}

/**
 * @param {AttemptState} first
 * @param {AbortSignal} signal
 * @param {() => void} askConsole
 */
function makeAttempt(first, signal, askConsole) {
  const badge = makeBadge();
  const cells = COLUMNS.map((c) => make("td", { class: CLASSES[c] ?? "" }));
  const [number, place, kind, market, price, state, elapsed, reason] =
    /** @type {HTMLElement[] & { length: 8 }} */ (cells);
  const log = makeConsole(signal, askConsole);
  state.append(badge.element, log.button);
  const more = make("button", { type: "button", class: "nbprov-toggle", "aria-expanded": "false" });
  reason.append(more);
  const raw = make("div", { class: "nbprov-raw" });
  const advice = make("div", { class: "nbprov-advice" });
  const detail = make(
    "tr",
    { class: "nbprov-detail", hidden: true },
    make("td"),
    make("td", { colspan: COLUMNS.length - 1 }, raw, advice),
  );
  const row = make("tr", {}, ...cells);
  more.addEventListener(
    "click",
    () => {
      detail.hidden = !detail.hidden;
      more.setAttribute("aria-expanded", String(!detail.hidden));
    },
    { signal },
  );
  setText(number, String(first.number));
  return {
    elements: [row, detail, log.row],
    tell: log.tell,
    /**
     * @param {AttemptState} attempt
     * @param {boolean} canAsk
     */
    show(attempt, canAsk) {
      log.show(canAsk && attempt.has_machine);
      setText(place, attempt.place);
      setText(kind, attempt.instance_type);
      setText(market, attempt.market);
      setText(price, attempt.price);
      badge.show(attempt.look);
      row.classList.toggle("nbprov-kept", attempt.is_kept);
      setText(more, attempt.reason);
      more.hidden = !attempt.reason;
      setText(
        raw,
        [attempt.code, attempt.raw].filter(Boolean).join(": ") || "no message from the cloud",
      );
      setText(advice, attempt.advice);
    },
    /**
     * @param {AttemptState} attempt
     * @param {number} now
     */
    tick(attempt, now) {
      setText(elapsed, duration((attempt.ended ?? now) - attempt.started));
      if (attempt.ended === null && !attempt.is_kept) log.tick(now);
    },
  };
}

/**
 * What a machine wrote on its console, behind a button; asked again while it boots and is shown.
 * @param {AbortSignal} signal
 * @param {() => void} ask
 */
function makeConsole(signal, ask) {
  const text = make("pre", { class: "nbprov-log", tabindex: "0", "aria-label": "Console" });
  const cell = make("td", { colspan: COLUMNS.length - 1 }, text);
  const row = make("tr", { class: "nbprov-detail" }, make("td"), cell);
  let asked = 0;
  let isWaiting = false;
  const askAgain = () => {
    isWaiting = true;
    ask();
  };
  const toggle = makeToggle("console", row, signal, () => {
    setText(text, "asking its cloud …");
    askAgain();
  });
  return {
    button: toggle.button,
    row,
    show: toggle.allow,
    /** @param {string} said */
    tell(said) {
      isWaiting = false;
      const wasAtEnd = text.scrollTop + text.clientHeight >= text.scrollHeight - 4;
      setVerbatim(text, said);
      if (wasAtEnd) text.scrollTop = text.scrollHeight;
    },
    /** @param {number} now */
    tick(now) {
      const isSeen = !row.hidden && document.visibilityState === "visible";
      if (!isSeen || isWaiting || now - asked < CONSOLE_SECONDS) return;
      asked = now;
      askAgain();
    },
  };
}
