// The header of a grid: column names that sort, widths that can be dragged, and frozen columns.

import { make } from "./dom.js";
import { columnWidth, isText } from "./table.js";

/** @typedef {import("./types").Table} Table */

const PADDING_CH = 2.2;
const LEAST_CH = 4;
// How much a key press widens or narrows a column.
const STEP_CH = 2;
// The columns that stay in sight while the others scroll.
const FROZEN = ["rank", "gpu", "gpu_hourly"];

/**
 * @param {object} options
 * @param {AbortSignal} options.signal
 * @param {HTMLElement} options.table the element that the widths are set on
 * @param {(column: number, isAdded: boolean) => void} options.onSort
 */
export function makeGridHead({ signal, table: element, onSort }) {
  const rowgroup = make("div", { role: "rowgroup", class: "nbprov-head" });
  /** @type {{ cell: HTMLElement, button: HTMLButtonElement, arrow: HTMLElement }[]} */
  let headers = [];
  /** Widths that a person chose, in characters, by the column's key. @type {Map<string, number>} */
  const chosen = new Map();
  /** @type {number[]} */
  let widths = [];
  /** @type {Table["columns"]} */
  let columns = [];

  // All rows have the same width and the same column shares, so cells align with their headers.
  function setWidths() {
    element.style.setProperty(
      "--nbprov-columns",
      widths.map((w) => `minmax(${w.toFixed(1)}ch, ${w.toFixed(1)}fr)`).join(" "),
    );
    const sum = (/** @type {number[]} */ some) => some.reduce((all, w) => all + w, 0);
    element.style.setProperty("--nbprov-width", `${Math.ceil(sum(widths))}ch`);
    for (let i = 0; i < frozen(); i++)
      element.style.setProperty(`--nbprov-left-${i}`, `${sum(widths.slice(0, i)).toFixed(1)}ch`);
  }

  const frozen = () => {
    const end = columns.findIndex((c) => !FROZEN.includes(c.key));
    return end < 0 ? columns.length : end;
  };

  /**
   * @param {number} column
   * @param {number} width
   */
  function setWidth(column, width) {
    widths[column] = Math.max(LEAST_CH, width);
    chosen.set(columns[column]?.key ?? "", widths[column] ?? LEAST_CH);
    setWidths();
  }

  /**
   * @param {HTMLElement} cell
   * @param {number} column
   */
  function makeHandle(cell, column) {
    const handle = make("span", { class: "nbprov-handle", "aria-hidden": "true" });
    handle.addEventListener(
      "pointerdown",
      (down) => {
        down.preventDefault();
        handle.setPointerCapture(down.pointerId);
        const from = down.clientX;
        const pixels = cell.offsetWidth;
        const perCh = pixels / (widths[column] ?? 1);
        handle.onpointermove = (move) => setWidth(column, (pixels + move.clientX - from) / perCh);
        handle.onpointerup = handle.onpointercancel = () => (handle.onpointermove = null);
      },
      { signal },
    );
    return handle;
  }

  return {
    element: rowgroup,
    frozen,
    /**
     * @param {Table} table
     * @param {number} nowMs
     */
    build(table, nowMs) {
      columns = table.columns;
      widths = columns.map(
        (c) => chosen.get(c.key) ?? columnWidth(c, nowMs, table.filled) + PADDING_CH,
      );
      headers = columns.map((column, i) => {
        const arrow = make("span", { class: "nbprov-arrow", "aria-hidden": "true" });
        const button = make("button", { type: "button", tabindex: -1 }, column.label, arrow);
        const cell = make(
          "div",
          {
            role: "columnheader",
            "aria-colindex": i + 1,
            class: `nbprov-cell${isText(column) ? "" : " nbprov-number"}`,
          },
          button,
        );
        cell.append(makeHandle(cell, i));
        if (i < frozen()) freeze(cell, i);
        button.addEventListener("click", (event) => onSort(i, event.shiftKey), { signal });
        button.addEventListener(
          "keydown",
          (event) => {
            const step = { ArrowLeft: -STEP_CH, ArrowRight: STEP_CH }[event.key];
            if (!event.altKey || !step) return;
            event.preventDefault();
            event.stopPropagation();
            setWidth(i, (widths[i] ?? 0) + step);
          },
          { signal },
        );
        return { cell, button, arrow };
      });
      const row = make("div", { role: "row", "aria-rowindex": 1, class: "nbprov-row" });
      row.append(...headers.map((h) => h.cell));
      rowgroup.replaceChildren(row);
      setWidths();
    },
    /**
     * Widen the columns whose new values need it. None gets narrower under the reader's eyes.
     * @param {Table} table
     * @param {number} nowMs
     */
    widen(table, nowMs) {
      table.columns.forEach((column, i) => {
        if (column.kind !== "stock" || chosen.has(column.key)) return;
        widths[i] = Math.max(widths[i] ?? 0, columnWidth(column, nowMs) + PADDING_CH);
      });
      setWidths();
    },
    /** @param {readonly import("./types").Sorting[]} sortings */
    showSorting(sortings) {
      columns.forEach((column, i) => {
        const at = sortings.findIndex((s) => s.key === column.key);
        const direction = sortings[at]?.direction;
        const header = headers[i];
        if (!header) return;
        header.cell.setAttribute(
          "aria-sort",
          !direction ? "none" : direction > 0 ? "ascending" : "descending",
        );
        header.arrow.dataset.place = at >= 0 && sortings.length > 1 ? String(at + 1) : "";
      });
    },
    buttons: () => headers.map((h) => h.button),
    height: () => rowgroup.offsetHeight,
  };
}

/**
 * Keep a cell in sight while the others scroll.
 * @param {HTMLElement} cell
 * @param {number} column
 */
export function freeze(cell, column) {
  cell.classList.add("nbprov-frozen");
  cell.style.left = `var(--nbprov-left-${column})`;
}
