// The attempts of a launch as lanes on one time axis: a lane for each place, with its phases.

import { duration } from "./format.js";
import { make, patchList, setText, setTitle } from "./dom.js";

/** @typedef {import("./types").RunState} RunState */
/** @typedef {import("./types").AttemptState} AttemptState */
/** @typedef {{ key: string, label: string, attempts: AttemptState[] }} Lane */

const MOST_LANES = 12;
const MOST_TICKS = 6;
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400];

/** The lanes and their axis; `show` takes another state, and `tick` lets time go on. */
export function makeLanes() {
  const axis = make("div", { class: "nbprov-axis" });
  const body = make("div");
  const more = make("div", { class: "nbprov-more" });
  const element = make(
    "div",
    { class: "nbprov-lanes", role: "img", hidden: true },
    make("div", { class: "nbprov-lane" }, make("span"), axis),
    body,
    more,
  );
  /** @type {Map<string, ReturnType<typeof makeLane>>} */
  const shown = new Map();
  /** @type {Lane[]} */
  let lanes = [];
  let ticks = "";
  return {
    element,
    /** @param {RunState} state */
    show(state) {
      const all = lanesOf(state.attempts);
      lanes = all.slice(-MOST_LANES);
      element.hidden = !lanes.length;
      patchList(body, shown, lanes, (lane) => lane.key, makeLane);
      const hidden = all.length - lanes.length;
      setText(more, hidden ? `${hidden} earlier places are in the table only` : "");
      more.hidden = !hidden;
      const kept = state.attempts.find((a) => a.is_kept);
      const tried = `${all.length} place${all.length === 1 ? "" : "s"} tried`;
      element.setAttribute("aria-label", kept ? `${tried}; ready in ${kept.place}` : tried);
    },
    /**
     * @param {RunState} state
     * @param {number} now
     */
    tick(state, now) {
      const end = lastInstant(state, now);
      const whole = Math.max(1, end - state.started);
      const marks = ticksOf(whole);
      if (ticks !== `${marks.join()} ${whole}`) {
        ticks = `${marks.join()} ${whole}`;
        axis.replaceChildren(
          ...marks.map((at) => {
            // Too near to the right edge there is no room for the words.
            const mark = make("span", {}, at / whole < 0.93 ? duration(at) : "");
            mark.style.left = `${((100 * at) / whole).toFixed(2)}%`;
            return mark;
          }),
        );
      }
      for (const lane of lanes) shown.get(lane.key)?.tick(lane, state.started, whole, end);
    },
  };
}

/** @param {Lane} first */
function makeLane(first) {
  const label = make("span", { class: "nbprov-lane-place" });
  const track = make("div", { class: "nbprov-line" });
  const element = make("div", { class: "nbprov-lane" }, label, track);
  setText(label, first.label);
  return {
    elements: [element],
    /**
     * @param {Lane} lane
     * @param {number} started
     * @param {number} whole seconds
     * @param {number} now
     */
    tick(lane, started, whole, now) {
      element.classList.toggle(
        "nbprov-kept",
        lane.attempts.some((a) => a.is_kept),
      );
      const spans = lane.attempts.flatMap((attempt) => spansOf(attempt, now));
      while (track.childElementCount > spans.length) track.lastElementChild?.remove();
      while (track.childElementCount < spans.length)
        track.append(make("div", { class: "nbprov-span" }));
      const percent = (/** @type {number} */ instant) =>
        Math.min(100, Math.max(0, (100 * (instant - started)) / whole));
      spans.forEach((span, at) => {
        const bar = /** @type {HTMLElement} */ (track.children[at]);
        bar.dataset.tone = span.tone;
        bar.dataset.phase = span.words;
        setTitle(bar, `${span.words}: ${duration(span.to - span.from)}`);
        // A phase of no length has a width all the same, also at the right end.
        bar.style.left = `min(${percent(span.from).toFixed(2)}%, 100% - 3px)`;
        bar.style.width = `${(percent(span.to) - percent(span.from)).toFixed(2)}%`;
      });
    },
  };
}

/**
 * Group attempts by place, type and market, in the order of their first attempts.
 * @param {readonly AttemptState[]} attempts
 * @returns {Lane[]}
 */
export function lanesOf(attempts) {
  /** @type {Map<string, Lane>} */
  const lanes = new Map();
  for (const attempt of attempts) {
    const spot = attempt.market === "spot" ? " spot" : "";
    const label = `${attempt.place} ${attempt.instance_type}${spot}`;
    const lane = lanes.get(label) ?? { key: label, label, attempts: [] };
    lane.attempts.push(attempt);
    lanes.set(label, lane);
  }
  return [...lanes.values()];
}

/**
 * Return the phases of an attempt with their ends. A refused one is all of one tone.
 * @param {AttemptState} attempt
 * @param {number} now
 * @returns {{ words: string, tone: string, from: number, to: number }[]}
 */
export function spansOf(attempt, now) {
  const end = attempt.ended ?? now;
  const phases = attempt.phases.filter((phase) => phase.since < end);
  if (attempt.look.tone === "bad" || !phases.length)
    return [
      { words: attempt.look.words, tone: attempt.look.tone, from: attempt.started, to: end },
    ];
  return phases.map((phase, at) => ({
    words: phase.words,
    tone: attempt.is_kept ? "good" : phase.tone,
    from: at ? phase.since : attempt.started,
    to: phases[at + 1]?.since ?? end,
  }));
}

/**
 * Return when the last attempt ended, or now where one goes on.
 * @param {RunState} state
 * @param {number} now
 */
export function lastInstant(state, now) {
  if (!state.is_final || state.attempts.some((a) => a.ended === null)) return now;
  return Math.max(...state.attempts.map((a) => a.ended ?? state.now), state.started + 1);
}

/**
 * Return round seconds that divide a length of time into a few parts, from 0 on.
 * @param {number} whole
 */
export function ticksOf(whole) {
  const step = STEPS.find((s) => whole / s <= MOST_TICKS - 1) ?? Math.ceil(whole / 5 / 86400) * 86400;
  return Array.from({ length: Math.floor(whole / step) + 1 }, (_, at) => at * step);
}
