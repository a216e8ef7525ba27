// The virtualised price grid: only the visible rows are in the page, however long the table is.

import { count, makeClock, usd } from "./format.js";
import { make, setText, setTitle } from "./dom.js";
import { freeze, makeGridHead } from "./grid_head.js";
import { nextSorting, sortedRows } from "./row_order.js";
import { cellHints, cellText, columnOf, countText, isText, whyOff } from "./table.js";

/** @typedef {import("./types").Table} Table */
/** @typedef {import("./types").Sorting} Sorting */
/** @typedef {{ element: HTMLElement, cells: HTMLElement[], group: HTMLElement, at: number }} Slot */

export const ROW_PX = 26;
// Rows drawn beyond each edge, so that fast scrolling shows no gap before the next frame.
const SPARE_ROWS = 4;
const PAGE_OVERLAP = 1;
// How often the age of stock reports is redrawn.
const AGE_MS = 10_000;
// Browsers lay out no element that is higher than this; longer tables are scrolled in proportion.
const MOST_PX = 8_000_000;

/**
 * @param {object} options
 * @param {string} options.label
 * @param {AbortSignal} options.signal
 * @param {number} options.rows
 * @param {import("./types").GridTools} options.tools
 * @param {(rows: number[]) => void} options.onPick
 * @param {boolean} [options.isMultiple] whether several rows can be chosen
 */
export function makeGrid({ label, signal, rows: rowsInSight, tools, onPick, isMultiple = false }) {
  const body = make("div", { role: "rowgroup", class: "nbprov-body" });
  const empty = make("div", { class: "nbprov-empty", hidden: true }, "no row matches the filter");
  const foot = make("div", { class: "nbprov-foot", "aria-live": "polite" });
  const element = make("div", { class: "nbprov-table" });
  const head = makeGridHead({ signal, table: element, onSort: sortBy });
  const scroller = make(
    "div",
    {
      class: "nbprov-grid",
      role: "grid",
      tabindex: 0,
      "aria-label": label,
      "aria-multiselectable": String(isMultiple),
    },
    head.element,
    body,
  );
  element.append(tools.element, scroller, empty, foot);

  /** @type {Table} */
  let table = { rows: 0, total: 0, noun: "offer", tail: 0, now: 0, columns: [], sent: [], monthly: undefined, renewals: 0, filled: 0 };
  /** @type {Sorting[]} */
  let sortings = [];
  let order = new Uint32Array(0);
  /** @type {import("./types").Layout} */
  let layout = { matched: order, entries: new Int32Array(0), groups: [] };
  /** @type {Map<number, string>} */
  let marks = new Map();
  /** @type {Set<number>} */
  let picked = new Set();
  let anchor = 0;
  let active = { row: 0, column: 0 };
  const clock = makeClock();
  const nowMs = () => clock.now() * 1000;
  /** @type {Slot[]} */
  let pool = [];
  let frame = 0;
  // Grey tells rows apart; where no row can be launched it would only be hard to read.
  let isGreyed = false;

  const headHeight = () => head.height() || ROW_PX;
  const rankOf = (/** @type {number} */ row) => columnOf(table, "rank")?.values[row] ?? row;
  const size = () => layout.entries.length;
  const room = () => scroller.clientHeight - headHeight();
  // How far the rows move for each pixel that the scroller does; 1 but for very long tables.
  const scale = () =>
    Math.max(1, (size() * ROW_PX - room()) / Math.max(1, Math.min(size() * ROW_PX, MOST_PX) - room()));
  const firstInSight = () => Math.floor((scroller.scrollTop * scale()) / ROW_PX);

  function buildPool() {
    const wanted = rowsInSight + 2 * SPARE_ROWS;
    pool = Array.from({ length: Math.min(wanted, Math.max(1, table.rows)) }, () => {
      const cells = table.columns.map((column, i) => {
        const cell = make("div", {
          role: "gridcell",
          "aria-colindex": i + 1,
          tabindex: -1,
          class: `nbprov-cell${isText(column) ? "" : " nbprov-number"}`,
        });
        if (i < head.frozen()) freeze(cell, i);
        return cell;
      });
      const group = make("div", { role: "gridcell", class: "nbprov-group", tabindex: -1 });
      const row = make("div", { role: "row", class: "nbprov-row", hidden: true }, ...cells);
      return { element: row, cells, group, at: -1 };
    });
    body.replaceChildren(...pool.map((slot) => slot.element));
  }

  /** @param {boolean} [everything] */
  function draw(everything = false) {
    if (!pool.length) return;
    const first = Math.max(0, Math.min(firstInSight() - SPARE_ROWS, size() - pool.length));
    const last = Math.min(size(), first + pool.length);
    // Where the scroller moves in proportion, rows are placed from the one at its top.
    const shift = scale() === 1 ? 0 : scroller.scrollTop - firstInSight() * ROW_PX;
    const used = new Set();
    for (let at = first; at < last; at++) {
      const slot = pool[at % pool.length];
      if (!slot) continue;
      used.add(slot);
      if (slot.at !== at || everything) bind(slot, at);
      slot.element.style.transform = `translateY(${at * ROW_PX + shift}px)`;
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
   * @param {Slot} slot
   */
  function release(slot) {
    if (slot.element.contains(document.activeElement)) scroller.focus({ preventScroll: true });
  }

  /**
   * @param {Slot} slot
   * @param {number} at
   */
  function bind(slot, at) {
    if (slot.at !== at) release(slot);
    const row = layout.entries[at] ?? 0;
    const group = row < 0 ? layout.groups[-1 - row] : undefined;
    slot.at = at;
    slot.element.hidden = false;
    slot.element.setAttribute("aria-rowindex", String(at + 2));
    slot.element.setAttribute("aria-selected", String(picked.has(row)));
    slot.element.classList.toggle("nbprov-odd", at % 2 === 1);
    slot.element.dataset.mark = group ? "" : (marks.get(rankOf(row)) ?? "");
    const isGroup = slot.group.isConnected;
    if (group && !isGroup) slot.element.replaceChildren(slot.group);
    else if (!group && isGroup) slot.element.replaceChildren(...slot.cells);
    if (group) {
      slot.element.classList.remove("nbprov-off");
      setTitle(slot.element, "");
      slot.element.setAttribute("aria-expanded", String(group.isOpen));
      const of = group.hasGpu ? "a GPU-hour" : "an hour";
      const from = Number.isNaN(group.least) ? "" : `, from ${usd(group.least)} ${of}`;
      setText(
        slot.group,
        `${group.isOpen ? "▾" : "▸"} ${group.name}: ${count(group.count)} ${table.noun}s${from}`,
      );
      return;
    }
    slot.element.removeAttribute("aria-expanded");
    const why = whyOff(table, row);
    slot.element.classList.toggle("nbprov-off", why !== "" && isGreyed);
    setTitle(slot.element, why && `not set up: ${why}`);
    table.columns.forEach((column, i) => {
      const cell = slot.cells[i];
      if (!cell) return;
      const text = cellText(column, row, nowMs());
      setText(cell, text);
      const hints = cellHints(column, row, text, nowMs());
      setTitle(cell, hints.title);
      cell.dataset.bars = hints.bars;
      cell.dataset.tone = hints.tone;
    });
  }

  function placeTabStop() {
    for (const button of head.buttons()) button.tabIndex = -1;
    for (const slot of pool) for (const cell of [...slot.cells, slot.group]) cell.tabIndex = -1;
    const target = activeElement();
    if (target) target.tabIndex = 0;
    scroller.tabIndex = target ? -1 : 0;
  }

  function activeElement() {
    if (active.row < 0) return head.buttons()[active.column];
    const slot = pool.find((s) => s.at === active.row);
    return slot?.group.isConnected ? slot.group : slot?.cells[active.column];
  }

  function showActive() {
    if (active.row >= 0) {
      const top = active.row * ROW_PX;
      const bottom = top + ROW_PX - room();
      if (top < scroller.scrollTop * scale()) scroller.scrollTop = top / scale();
      else if (bottom > scroller.scrollTop * scale()) scroller.scrollTop = bottom / scale();
      draw();
    } else placeTabStop();
    const target = activeElement();
    target?.focus({ preventScroll: true });
    target?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  /**
   * @param {number} column
   * @param {boolean} isAdded
   */
  function sortBy(column, isAdded) {
    active = { row: -1, column };
    sortings = nextSorting(sortings, table.columns[column]?.key ?? "", isAdded);
    order = sortedRows(table, sortings);
    refresh();
    placeTabStop();
  }

  function refresh() {
    layout = tools.layout(table, order);
    active.row = Math.min(active.row, size() - 1);
    body.style.height = `${Math.min(size() * ROW_PX, MOST_PX)}px`;
    // A search does not move what stands below; groups are closed and opened on purpose.
    scroller.style.setProperty("--nbprov-least", String(layout.groups.length ? 0 : table.rows));
    scroller.setAttribute("aria-rowcount", String(size() + 1));
    scroller.setAttribute("aria-colcount", String(table.columns.length));
    empty.hidden = size() > 0 || table.rows === 0;
    head.showSorting(sortings);
    foot.hidden = tools.element.hidden && table.total === table.rows - table.tail;
    setText(foot, countText(table, layout.matched));
    draw(true);
  }

  /**
   * Choose the row of an entry, or open or close its group.
   * @param {number} at
   * @param {{ shiftKey: boolean, ctrlKey: boolean, metaKey: boolean }} keys
   */
  function pick(at, keys) {
    const row = layout.entries[at];
    if (row === undefined) return;
    if (row < 0) {
      tools.toggleGroup?.(layout.groups[-1 - row]?.name ?? "");
      refresh();
      return;
    }
    if (isMultiple && keys.shiftKey) {
      const [from, to] = [Math.min(anchor, at), Math.max(anchor, at)];
      picked = new Set(layout.entries.slice(from, to + 1).filter((r) => r >= 0));
    } else {
      const others = isMultiple && (keys.ctrlKey || keys.metaKey) ? picked : new Set();
      picked = new Set(/** @type {Set<number>} */ (others));
      if (others.has(row)) picked.delete(row);
      else picked.add(row);
      anchor = at;
    }
    showPicked();
  }

  function showPicked() {
    for (const slot of pool)
      slot.element.setAttribute(
        "aria-selected",
        String(slot.at >= 0 && picked.has(layout.entries[slot.at] ?? -1)),
      );
    onPick([...picked]);
  }

  /** @param {KeyboardEvent} event */
  function key(event) {
    const end = { row: size() - 1, column: table.columns.length - 1 };
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
      const isVertical = event.key === "ArrowDown" || event.key === "ArrowUp";
      if (isMultiple && event.shiftKey && isVertical && active.row >= 0) pick(active.row, event);
    } else if ((event.key === "Enter" || event.key === " ") && row >= 0) pick(row, event);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** @param {MouseEvent} event */
  function clicked(event) {
    const cell = event.target instanceof Element ? event.target.closest('[role="gridcell"]') : null;
    const slot = pool.find((s) => cell && s.element.contains(cell));
    if (!slot || !(cell instanceof HTMLElement)) return;
    active = { row: slot.at, column: Math.max(0, slot.cells.indexOf(cell)) };
    placeTabStop();
    cell.focus({ preventScroll: true });
    pick(slot.at, event);
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
    () => size() && activeElement() === undefined && !scroller.matches(":active") && showActive(),
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

  function build() {
    const hadFocus = scroller.contains(document.activeElement);
    order = sortedRows(table, sortings);
    isGreyed = order.some((row) => !whyOff(table, row));
    tools.show(table);
    setRows(rowsInSight);
    head.build(table, nowMs());
    buildPool();
    refresh();
    if (hadFocus) activeElement()?.focus({ preventScroll: true });
  }

  return {
    element,
    /**
     * @param {Table} given
     * @param {number[]} [chosen] its rows that are chosen from the first
     */
    setTable(given, chosen = []) {
      table = given;
      clock.set(table.now);
      sortings = [];
      picked = new Set(chosen);
      active = { row: 0, column: 0 };
      build();
    },
    /** More rows of the table have arrived, or other columns are to be drawn. */
    rebuild: build,
    /** A column that is drawn has got other values; the order stays until it is asked for again. */
    renew() {
      tools.show(table);
      head.widen(table, nowMs());
      refresh();
    },
    /** Choose no row. */
    unpick() {
      picked = new Set();
      showPicked();
    },
    /** The rows that match, also those in closed groups, in their order. */
    matched: () => layout.matched,
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
