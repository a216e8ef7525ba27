// What clouds answered in the last day, a row a machine and place: bars, and the last answer.

import { duration } from "./format.js";
import { make, makeBadge, patchList, setText, setTitle } from "./dom.js";
import { dayBars } from "./table.js";

/** @typedef {import("./types").MarketRow} MarketRow */

/**
 * Return an age in whole minutes.
 * @param {number} seconds
 */
export const minutesAgo = (seconds) =>
  `${seconds < 60 ? "less than a minute" : duration(60 * Math.floor(seconds / 60))} ago`;

/** @param {MarketRow} row */
function makeMarketRow(row) {
  const bars = make("span", { role: "img" });
  const badge = makeBadge();
  const since = make("span", { class: "nbprov-why" });
  const words = { machine: make("td"), place: make("td", { class: "nbprov-place" }) };
  const day = make("td", {}, bars);
  const answer = make("td", {}, badge.element, " ", since);
  setText(words.machine, row.machine);
  setText(words.place, row.place);
  return {
    elements: [make("tr", {}, words.machine, words.place, day, answer)],
    /** @param {MarketRow} given */
    show(given) {
      const drawn = dayBars(given.levels);
      setText(bars, drawn.bars);
      bars.hidden = !drawn.bars;
      setTitle(bars, drawn.words);
      bars.setAttribute("aria-label", drawn.words);
      badge.show(given.look);
    },
    /** @param {number} seconds */
    tick: (seconds) => setText(since, minutesAgo(seconds)),
  };
}

export function makeMarketTable() {
  const heads = ["machine", "place", "stock", "last answer"];
  const head = make("tr", {}, ...heads.map((label) => make("th", { scope: "col" }, label)));
  const body = make("tbody");
  const more = make("div", { class: "nbprov-why" });
  const table = make(
    "table",
    { class: "nbprov-list nbprov-market", "aria-label": "Places in the last 24 h" },
    make("thead", {}, head),
    body,
  );
  const element = make("div", {}, make("strong", {}, "Places in the last 24 h"), table, more);
  /** @type {Map<string, ReturnType<typeof makeMarketRow>>} */
  const views = new Map();
  /** @type {MarketRow[]} */
  let rows = [];
  return {
    element,
    /**
     * @param {MarketRow[]} given
     * @param {string} rest
     */
    show(given, rest) {
      rows = given;
      element.hidden = !given.length;
      setText(more, rest);
      patchList(body, views, given, (row) => row.key, makeMarketRow);
      for (const row of given) views.get(row.key)?.show(row);
    },
    /** @param {number} now */
    tick(now) {
      for (const row of rows) views.get(row.key)?.tick(now - row.at);
    },
  };
}
