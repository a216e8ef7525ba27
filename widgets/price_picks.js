// What can be done with rows of the price table: a cell for them, copies, files, a comparison.

import { copy } from "./clipboard.js";
import { count } from "./format.js";
import { make, setText } from "./dom.js";
import { cellOf, linesOf } from "./row_texts.js";
import { cellText } from "./table.js";

/** @typedef {import("./types").Table} Table */

const MOST_PINNED = 4;

/** @param {number} n */
const copied = (n) => `${count(n)} row${n === 1 ? "" : "s"} copied`;

/**
 * Let the browser save a text as a file.
 * @param {string} name
 * @param {string} text
 */
function save(name, text) {
  const address = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  make("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

/**
 * @param {object} options
 * @param {AbortSignal} options.signal
 * @param {() => Table | undefined} options.table
 * @param {() => Uint32Array} options.matched the rows that match the filter
 * @param {() => number} options.nowMs
 * @param {(rows: Uint32Array) => void} options.onFrame
 * @param {(text: string) => void} options.say
 */
export function makePricePicks({ signal, table, matched, nowMs, onFrame, say }) {
  /** @type {number[]} */
  let picked = [];
  /** @type {number[]} */
  let pinned = [];
  const words = make("span", { class: "nbprov-picked" });
  const cell = make("pre", { class: "nbprov-cell-text", tabindex: 0, "aria-label": "Cell" });
  const compared = make("div", { class: "nbprov-compared", hidden: true });

  /**
   * @param {string} label
   * @param {string} title
   * @param {(table: Table) => void} act
   */
  const button = (label, title, act) => {
    const made = make("button", { type: "button", class: "nbprov-button", title }, label);
    made.addEventListener(
      "click",
      () => {
        const shown = table();
        if (shown) act(shown);
      },
      { signal },
    );
    return made;
  };
  const forPicked = [
    button("Copy cell", "copy a %%provision cell that launches these rows", (t) => {
      void copy(cellOf(t, picked)).then(() => say("the cell is copied: paste it into the notebook"));
    }),
    button("Copy rows", "copy these rows for a spreadsheet (Ctrl-C)", (t) => {
      void copy(linesOf(t, picked, "\t")).then(() => say(copied(picked.length)));
    }),
    button("Compare", "pin these rows and compare them", (t) => {
      pinned = [...new Set([...pinned, ...picked])].slice(-MOST_PINNED);
      compare(t);
    }),
  ];
  const forAll = [
    button("CSV", "save all rows that match as a CSV file", (t) => save("prices.csv", linesOf(t, matched(), ","))),
    button("DataFrame", "make `offers`, a DataFrame of all rows that match", () => onFrame(matched())),
  ];
  const bar = make("div", { class: "nbprov-pick-bar" }, words, ...forPicked, ...forAll);
  const element = make("div", { class: "nbprov-picks", hidden: true }, bar, cell, compared);

  /** @param {Table} shown */
  function compare(shown) {
    compared.hidden = !pinned.length;
    const head = make("tr", {}, make("th", { scope: "col" }, "compared"));
    for (const row of pinned) {
      const away = make("button", { type: "button", class: "nbprov-chip" }, "unpin ×");
      away.addEventListener("click", () => {
        pinned = pinned.filter((one) => one !== row);
        compare(shown);
        bar.querySelector("button")?.focus();
      });
      head.append(make("th", { scope: "col" }, away));
    }
    const body = shown.columns.map((column) => {
      const texts = pinned.map((row) => cellText(column, row, nowMs()));
      const line = make("tr", {}, make("th", { scope: "row" }, column.label));
      if (new Set(texts).size > 1) line.className = "nbprov-differs";
      line.append(...texts.map((text) => make("td", {}, text)));
      return line;
    });
    compared.replaceChildren(make("table", {}, make("thead", {}, head), make("tbody", {}, ...body)));
  }

  function show() {
    const shown = table();
    setText(words, picked.length ? `${count(picked.length)} chosen` : "");
    cell.hidden = !picked.length;
    for (const made of forPicked) made.hidden = !picked.length;
    setText(cell, shown && picked.length ? cellOf(shown, picked) : "");
  }

  return {
    element,
    /** @param {number[]} rows */
    setPicked(rows) {
      picked = rows;
      show();
    },
    /** Another table is shown: rows are other ones now. */
    reset() {
      picked = [];
      pinned = [];
      element.hidden = !table()?.rows;
      compared.hidden = true;
      show();
    },
    /** @param {HTMLElement} grid */
    copyFrom(grid) {
      grid.addEventListener(
        "copy",
        (event) => {
          const shown = table();
          const isText = !document.getSelection()?.isCollapsed;
          if (!shown || !picked.length || isText || event.target instanceof HTMLInputElement) return;
          event.clipboardData?.setData("text/plain", linesOf(shown, picked, "\t"));
          event.preventDefault();
          say(copied(picked.length));
        },
        { signal },
      );
    },
  };
}
