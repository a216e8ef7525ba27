// The virtualised price grid: only the visible rows are in the page, however long the table is.

import { count, makeClock } from "./format.js";
import { make, setText } from "./dom.js";
import { cellText, columnWidth, isText, whyOff, withoutEmptyColumns } from "./table.js";
import { filteredRows, nextSorting, sortedRows } from "./table.js";

/** @typedef {import("./types").Table} Table */

export const ROW_PX = 26;
// Rows drawn beyond each edge, so that fast scrolling shows no gap before the next frame.
const SPARE_ROWS = 4;
const PAGE_OVERLAP = 1;
const PADDING_CH = 2.2;
// How often the age of stock reports is redrawn.
const AGE_MS = 10_000;
// A table of at most this many rows has no filter boxes, because it is seen at a glance.
const FEW_ROWS = 8;

/**
 * @param {object} options
 * @param {string} options.label
 * @param {AbortSignal} options.signal
 * @param {number} options.rows
 * @param {(rank: number) => void} options.onSelect
 */
export function makeGrid({ label, signal, rows: rowsInSight, onSelect }) {
  const head = make("div", { role: "rowgroup", class: "nbprov-head" });
  const body = make("div", { role: "rowgroup", class: "nbprov-body" });
  const empty = make("div", { class: "nbprov-empty", hidden: true }, "no row matches the filter");
  const scroller = make(
    "div",
    {
      class: "nbprov-grid",
      role: "grid",
      tabindex: 0,
      "aria-label": label,
      "aria-multiselectable": "false",
    },
    head,
    body,
  );
  const tools = makeTools(signal);
  const foot = make("div", { class: "nbprov-foot", "aria-live": "polite" });
  const element = make("div", { class: "nbprov-table" }, tools.element, scroller, empty, foot);

  /** @type {Table} */
  let table = { rows: 0, total: 0, noun: "offer", tail: 0, now: 0, columns: [], off: undefined };
  /** @type {import("./types").Sorting} */
  let sorting = { key: "", direction: 0 };
  let order = new Uint32Array(0);
  let visible = order;
  /** @type {Map<number, string>} */
  let marks = new Map();
  let selected = -1;
  let active = { row: 0, column: 0 };
  const clock = makeClock();
  const nowMs = () => clock.now() * 1000;
  /** @type {{ element: HTMLElement, cells: HTMLElement[], at: number }[]} */
  let pool = [];
  /** @type {{ cell: HTMLElement, button: HTMLButtonElement }[]} */
  let headers = [];
  let frame = 0;

  const headHeight = () => head.offsetHeight || ROW_PX;
  const rankOf = (/** @type {number} */ row) =>
    table.columns.find((c) => c.key === "rank")?.values[row] ?? row;

  function buildHead() {
    headers = table.columns.map((column, i) => {
      const button = make(
        "button",
        { type: "button", tabindex: -1 },
        column.label,
        make("span", { class: "nbprov-arrow", "aria-hidden": "true" }),
      );
      const cell = make(
        "div",
        {
          role: "columnheader",
          "aria-colindex": i + 1,
          class: isText(column) ? "nbprov-cell" : "nbprov-cell nbprov-number",
        },
        button,
      );
      button.addEventListener("click", () => sortBy(i), { signal });
      return { cell, button };
    });
    head.replaceChildren(
      make(
        "div",
        { role: "row", "aria-rowindex": 1, class: "nbprov-row" },
        ...headers.map((h) => h.cell),
      ),
    );
    // All rows have the same width and the same column shares, so cells align with their headers.
    const widths = table.columns.map((c) => columnWidth(c, nowMs()) + PADDING_CH);
    element.style.setProperty(
      "--nbprov-columns",
      widths.map((w) => `minmax(${w.toFixed(1)}ch, ${w.toFixed(1)}fr)`).join(" "),
    );
    element.style.setProperty(
      "--nbprov-width",
      `${Math.ceil(widths.reduce((sum, w) => sum + w, 0))}ch`,
    );
  }

  function buildPool() {
    const size = rowsInSight + 2 * SPARE_ROWS;
    pool = Array.from({ length: Math.min(size, Math.max(1, table.rows)) }, () => {
      const cells = table.columns.map((column, i) =>
        make("div", {
          role: "gridcell",
          "aria-colindex": i + 1,
          tabindex: -1,
          class: isText(column) ? "nbprov-cell" : "nbprov-cell nbprov-number",
        }),
      );
      const row = make("div", { role: "row", class: "nbprov-row", hidden: true }, ...cells);
      return { element: row, cells, at: -1 };
    });
    body.replaceChildren(...pool.map((slot) => slot.element));
  }

  /** @param {boolean} [everything] */
  function draw(everything = false) {
    if (!pool.length) return;
    const first = Math.max(
      0,
      Math.min(Math.floor(scroller.scrollTop / ROW_PX) - SPARE_ROWS, visible.length - pool.length),
    );
    const last = Math.min(visible.length, first + pool.length);
    const used = new Set();
    for (let at = first; at < last; at++) {
      const slot = pool[at % pool.length];
      if (!slot) continue;
      used.add(slot);
      if (slot.at !== at || everything) bind(slot, at);
    }
    for (const slot of pool) {
      if (used.has(slot) || slot.at < 0) continue;
      release(slot);
      slot.at = -1;
      slot.element.hidden = true;
    }
    placeTabStop();
  }

  /**
   * Move the focus from a row that is removed to the grid, which remembers the active cell.
   * @param {{ element: HTMLElement }} slot
   */
  function release(slot) {
    if (slot.element.contains(document.activeElement)) scroller.focus({ preventScroll: true });
  }

  /**
   * @param {{ element: HTMLElement, cells: HTMLElement[], at: number }} slot
   * @param {number} at
   */
  function bind(slot, at) {
    if (slot.at !== at) release(slot);
    const row = visible[at] ?? 0;
    slot.at = at;
    slot.element.hidden = false;
    slot.element.style.transform = `translateY(${at * ROW_PX}px)`;
    slot.element.setAttribute("aria-rowindex", String(at + 2));
    slot.element.setAttribute("aria-selected", String(row === selected));
    slot.element.classList.toggle("nbprov-odd", at % 2 === 1);
    slot.element.dataset.mark = marks.get(rankOf(row)) ?? "";
    const why = whyOff(table, row);
    slot.element.classList.toggle("nbprov-off", why !== "");
    slot.element.title = why && `not set up: ${why}`;
    table.columns.forEach((column, i) => {
      const cell = slot.cells[i];
      if (!cell) return;
      const text = cellText(column, row, nowMs());
      setText(cell, text);
      cell.title =
        column.kind === "date"
          ? (column.words[column.values[row] ?? -1] ?? "")
          : text.length > 18
            ? text
            : "";
    });
  }

  function placeTabStop() {
    for (const { button } of headers) button.tabIndex = -1;
    for (const slot of pool) for (const cell of slot.cells) cell.tabIndex = -1;
    const target = activeElement();
    if (target) target.tabIndex = 0;
    scroller.tabIndex = target ? -1 : 0;
  }

  function activeElement() {
    if (active.row < 0) return headers[active.column]?.button;
    return pool.find((slot) => slot.at === active.row)?.cells[active.column];
  }

  function showActive() {
    if (active.row >= 0) {
      const top = active.row * ROW_PX;
      const room = scroller.clientHeight - headHeight();
      if (top < scroller.scrollTop) scroller.scrollTop = top;
      else if (top + ROW_PX > scroller.scrollTop + room) scroller.scrollTop = top + ROW_PX - room;
      draw();
    } else placeTabStop();
    const target = activeElement();
    target?.focus({ preventScroll: true });
    target?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  /** @param {number} column */
  function sortBy(column) {
    active = { row: -1, column };
    sorting = nextSorting(sorting, table.columns[column]?.key ?? "");
    order = sortedRows(table, sorting);
    refresh();
    placeTabStop();
  }

  function refresh() {
    visible = filteredRows(table, order, tools.filter());
    active.row = Math.min(active.row, visible.length - 1);
    body.style.height = `${visible.length * ROW_PX}px`;
    scroller.setAttribute("aria-rowcount", String(visible.length + 1));
    scroller.setAttribute("aria-colcount", String(table.columns.length));
    empty.hidden = visible.length > 0 || table.rows === 0;
    table.columns.forEach((column, i) => {
      const direction = column.key === sorting.key ? sorting.direction : 0;
      headers[i]?.cell.setAttribute(
        "aria-sort",
        direction === 0 ? "none" : direction > 0 ? "ascending" : "descending",
      );
    });
    foot.hidden = tools.element.hidden && table.total === table.rows - table.tail;
    setText(foot, footText());
    draw(true);
  }

  function footText() {
    const plural = (/** @type {number} */ n) => `${count(n)} ${table.noun}${n === 1 ? "" : "s"}`;
    const rows = table.rows - table.tail;
    const inSight = visible.filter((row) => row < rows).length;
    const shown = inSight < rows ? `${count(inSight)} of ${plural(rows)}` : plural(rows);
    return table.total > rows
      ? `${shown}; the first ${count(rows)} of ${count(table.total)}`
      : shown;
  }

  /** @param {number} at */
  function select(at) {
    const row = visible[at];
    if (row === undefined) return;
    selected = row;
    for (const slot of pool)
      slot.element.setAttribute(
        "aria-selected",
        String(slot.at >= 0 && visible[slot.at] === selected),
      );
    if (rankOf(row) >= 0) onSelect(rankOf(row));
  }

  /** @param {KeyboardEvent} event */
  function key(event) {
    const end = { row: visible.length - 1, column: table.columns.length - 1 };
    const page = Math.max(1, Math.floor(scroller.clientHeight / ROW_PX) - 1 - PAGE_OVERLAP);
    const { row, column } = active;
    /** @type {Record<string, [number, number]>} */
    const moves = {
      ArrowDown: [row + 1, column],
      ArrowUp: [row - 1, column],
      ArrowRight: [row, column + 1],
      ArrowLeft: [row, column - 1],
      PageDown: [row + page, column],
      PageUp: [Math.max(0, row - page), column],
      Home: [event.ctrlKey ? 0 : row, 0],
      End: [event.ctrlKey ? end.row : row, end.column],
    };
    const move = moves[event.key];
    if (move) {
      active = {
        row: Math.max(-1, Math.min(end.row, move[0])),
        column: Math.max(0, Math.min(end.column, move[1])),
      };
      showActive();
    } else if ((event.key === "Enter" || event.key === " ") && row >= 0) select(row);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** @param {Event} event */
  function clicked(event) {
    const cell = event.target instanceof Element ? event.target.closest('[role="gridcell"]') : null;
    const slot = pool.find((s) => cell && s.element.contains(cell));
    if (!slot || !(cell instanceof HTMLElement)) return;
    active = { row: slot.at, column: slot.cells.indexOf(cell) };
    placeTabStop();
    cell.focus({ preventScroll: true });
    select(slot.at);
  }

  const scrolled = () => {
    if (!frame) frame = requestAnimationFrame(() => ((frame = 0), draw()));
  };
  scroller.addEventListener("scroll", scrolled, { signal, passive: true });
  scroller.addEventListener(
    "keydown",
    (event) => !(event.target instanceof HTMLButtonElement && event.key === "Enter") && key(event),
    { signal },
  );
  scroller.addEventListener(
    "focus",
    () =>
      visible.length &&
      activeElement() === undefined &&
      !scroller.matches(":active") &&
      showActive(),
    { signal },
  );
  body.addEventListener("click", clicked, { signal });
  tools.onChange(() => {
    scroller.scrollTop = 0;
    refresh();
  });
  // JupyterLab removes cells that are out of sight from the page, which resets their scrolling.
  const resized = new ResizeObserver(scrolled);
  resized.observe(scroller);
  const ageing = setInterval(
    () => table.columns.some((c) => c.kind === "stock") && draw(true),
    AGE_MS,
  );
  signal.addEventListener("abort", () => {
    clearInterval(ageing);
    cancelAnimationFrame(frame);
    resized.disconnect();
  });

  /** @param {number} rows */
  function setRows(rows) {
    rowsInSight = rows;
    scroller.style.setProperty("--nbprov-rows", String(Math.max(1, rows)));
  }

  return {
    element,
    /** @param {Table} given */
    setTable(given) {
      table = withoutEmptyColumns(given);
      clock.set(table.now);
      sorting = { key: "", direction: 0 };
      selected = -1;
      active = { row: 0, column: 0 };
      order = sortedRows(table, sorting);
      tools.show(table);
      tools.element.hidden = table.rows <= FEW_ROWS;
      setRows(rowsInSight);
      buildHead();
      buildPool();
      refresh();
    },
    /**
     * Set how many rows are visible at once.
     * @param {number} rows
     */
    setRows(rows) {
      if (rows === rowsInSight) return;
      setRows(rows);
      buildPool();
      draw(true);
    },
    /**
     * Mark candidates by rank, with the tone of their attempt.
     * @param {Map<number, string>} given
     */
    setMarks(given) {
      marks = given;
      draw(true);
    },
  };
}

/**
 * The filter boxes above a grid.
 * @param {AbortSignal} signal
 */
function makeTools(signal) {
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
    /**
     * Offer only the markets that the table has.
     * @param {Table} table
     */
    show(table) {
      const words = table.columns.find((c) => c.key === "market")?.words ?? [];
      market.hidden = words.length < 2;
      const chosen = market.value;
      market.replaceChildren(
        make("option", { value: "" }, "both markets"),
        ...[...words].sort().map((w) => make("option", { value: w }, w)),
      );
      market.value = words.includes(chosen) ? chosen : "";
    },
    /** @returns {import("./types").Filter} */
    filter() {
      const limit = most.valueAsNumber;
      return { text: text.value, most: Number.isNaN(limit) ? null : limit, market: market.value };
    },
    /** @param {() => void} changed */
    onChange(changed) {
      // The browser's own Escape would clear the box without telling, and the notebook would take
      // the focus. In an empty box Escape leaves the panel, as everywhere else.
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
      for (const input of [text, most, market])
        input.addEventListener("input", changed, { signal });
    },
  };
}
