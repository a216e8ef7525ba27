// The attempts of a launch as a live table.

import { duration } from "./format.js";
import { make, makeBadge, patchList, setText } from "./dom.js";

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

/** @param {AbortSignal} signal */
export function makeAttempts(signal) {
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
    /** @param {AttemptState[]} attempts */
    show(attempts) {
      element.hidden = !attempts.length;
      patchList(
        body,
        shown,
        attempts,
        (a) => a.key,
        (a) => makeAttempt(a, signal),
      );
      for (const attempt of attempts) shown.get(attempt.key)?.show(attempt);
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
 */
function makeAttempt(first, signal) {
  const badge = makeBadge();
  const cells = COLUMNS.map((c) => make("td", { class: CLASSES[c] ?? "" }));
  const [number, place, kind, market, price, state, elapsed, reason] =
    /** @type {HTMLElement[] & { length: 8 }} */ (cells);
  state.append(badge.element);
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
    elements: [row, detail],
    /** @param {AttemptState} attempt */
    show(attempt) {
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
    },
  };
}
