// The filter boxes above a short table: words, a price limit and the market.

import { make } from "./dom.js";
import { byPrice, searchTest } from "./search_words.js";
import { columnOf, wordOf } from "./table.js";

/** @typedef {import("./types").Table} Table */

// A table of at most this many rows has no filter boxes, because it is seen at a glance.
const FEW_ROWS = 8;

/**
 * @param {AbortSignal} signal
 * @returns {import("./types").GridTools}
 */
export function makeFilterTools(signal) {
  const text = make("input", {
    type: "search",
    class: "nbprov-input nbprov-search",
    placeholder: "filter: GPU, cloud, region, type …",
    "aria-label": "Show only rows that contain",
    spellcheck: "false",
  });
  const most = make("input", {
    type: "number",
    class: "nbprov-input nbprov-most",
    min: 0,
    step: "any",
    placeholder: "any",
    "aria-label": "Highest price in dollars per hour",
  });
  const market = make(
    "select",
    { class: "nbprov-input", "aria-label": "Market" },
    make("option", { value: "" }, "both markets"),
  );
  const element = make(
    "div",
    { class: "nbprov-tools", role: "search" },
    text,
    make("label", {}, "at most $", most, "/h"),
    market,
  );
  return {
    element,
    show(table) {
      const words = columnOf(table, "market")?.words ?? [];
      element.hidden = table.rows <= FEW_ROWS;
      market.hidden = words.length < 2;
      const chosen = market.value;
      market.replaceChildren(
        make("option", { value: "" }, "both markets"),
        ...[...words].sort().map((w) => make("option", { value: w }, w)),
      );
      market.value = words.includes(chosen) ? chosen : "";
    },
    layout(table, order) {
      const limit = most.valueAsNumber;
      const cheap = Number.isNaN(limit) ? null : byPrice(columnOf(table, "hourly"), limit);
      const found = searchTest(table, text.value);
      const sold = columnOf(table, "market");
      const matched = order.filter(
        (row) =>
          (!cheap || cheap(row)) &&
          (!market.value || wordOf(sold, row) === market.value) &&
          found(row),
      );
      return { matched, entries: Int32Array.from(matched), groups: [] };
    },
    onChange(changed) {
      clearOnEscape(element, signal, changed);
      for (const input of [text, most, market])
        input.addEventListener("input", changed, { signal });
    },
  };
}

/**
 * Let Escape clear a box that holds text. The browser's own Escape would clear it without telling,
 * and the notebook would take the focus. In an empty box Escape leaves the panel, as elsewhere.
 * @param {HTMLElement} element
 * @param {AbortSignal} signal
 * @param {() => void} changed
 */
export function clearOnEscape(element, signal, changed) {
  element.addEventListener(
    "keydown",
    (event) => {
      const box = event.target;
      if (event.key !== "Escape" || !(box instanceof HTMLInputElement) || !box.value) return;
      event.preventDefault();
      event.stopPropagation();
      box.value = "";
      changed();
    },
    { signal },
  );
}
