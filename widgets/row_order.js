// The order of the table's rows: sorting by several columns, and folding into groups.

import { columnOf, isText, level, STOCK_LEVELS } from "./table.js";

/** @typedef {import("./types").Table} Table */
/** @typedef {import("./types").TableColumn} TableColumn */
/** @typedef {import("./types").Sorting} Sorting */

const COLLATOR = new Intl.Collator("en", { numeric: true, sensitivity: "base" });

/**
 * Return the sort key of each row; NaN where the value is unknown.
 * @param {TableColumn} column
 * @returns {ArrayLike<number>}
 */
function sortKeys(column) {
  // A negative rank marks a row that no launch uses.
  if (column.kind === "rank") return Float64Array.from(column.values, (v) => (v < 0 ? NaN : v));
  if (!isText(column)) return column.values;
  const keys = new Float64Array(column.words.length);
  if (column.kind === "stock")
    column.words.forEach((word, i) => {
      const place = STOCK_LEVELS.indexOf(level(word));
      keys[i] = place < 0 ? NaN : place;
    });
  else {
    // The column shows ages, which sort the other way round than their dates.
    const sign = column.kind === "date" ? -1 : 1;
    column.words
      .map((_, i) => i)
      .sort((a, b) => COLLATOR.compare(column.words[a] ?? "", column.words[b] ?? ""))
      .forEach((word, place) => (keys[word] = column.words[word] ? sign * place : NaN));
  }
  return Float64Array.from(column.values, (code) => keys[code] ?? NaN);
}

/**
 * Sort rows by one column, keeping the order of equal ones; unknown values come last both ways.
 *
 * Rows are counted into the places of their distinct values, which takes the same few passes for
 * a hundred rows and for a million, where comparing rows would stop the page for seconds.
 * @param {Uint32Array} rows
 * @param {ArrayLike<number>} keys
 * @param {number} direction
 */
function sortedBy(rows, keys, direction) {
  const distinct = new Set();
  for (const row of rows) distinct.add(keys[row] ?? NaN);
  distinct.delete(NaN);
  const known = Float64Array.from(distinct).sort();
  /** @type {Map<number, number>} */
  const places = new Map();
  known.forEach((v, i) => places.set(v, direction > 0 ? i : known.length - 1 - i));
  const place = new Uint32Array(rows.length);
  const ends = new Uint32Array(known.length + 2);
  for (let i = 0; i < rows.length; i++) {
    const found = places.get(keys[rows[i] ?? 0] ?? NaN) ?? known.length;
    place[i] = found;
    ends[found + 1] = (ends[found + 1] ?? 0) + 1;
  }
  for (let i = 1; i < ends.length; i++) ends[i] = (ends[i] ?? 0) + (ends[i - 1] ?? 0);
  const sorted = new Uint32Array(rows.length);
  for (let i = 0; i < rows.length; i++) {
    const at = place[i] ?? 0;
    sorted[ends[at] ?? 0] = rows[i] ?? 0;
    ends[at] = (ends[at] ?? 0) + 1;
  }
  return sorted;
}

/**
 * Return all rows that have arrived in the wanted order, by the first column and among equals by
 * the next; without a column in the kernel's order.
 * @param {Table} table
 * @param {readonly Sorting[]} sortings
 */
export function sortedRows(table, sortings) {
  let rows = Uint32Array.from({ length: table.filled }, (_, i) => i);
  for (const { key, direction } of [...sortings].reverse()) {
    const column = columnOf(table, key);
    if (column) rows = sortedBy(rows, sortKeys(column), direction);
  }
  return rows;
}

/**
 * Return the next sorting after a press on a header: upwards, downwards, not at all.
 * @param {readonly Sorting[]} sortings
 * @param {string} key
 * @param {boolean} [isAdded] keep the other columns, and let this one be the last
 * @returns {Sorting[]}
 */
export function nextSorting(sortings, key, isAdded = false) {
  const now = sortings.find((s) => s.key === key);
  const direction = !now ? 1 : now.direction === 1 ? -1 : 0;
  /** @type {Sorting[]} */
  const own = direction ? [{ key, direction }] : [];
  if (!isAdded) return own;
  if (!now) return [...sortings, ...own];
  return sortings.flatMap((s) => (s.key === key ? own : [s]));
}

/**
 * Return rows in their order as entries, with those of a group below one entry for the group.
 *
 * A group's entry is negative: -1 is the first group. Groups are in the order of their cheapest
 * GPU, those without one last; rows of no group come first, and those of a closed group are left out.
 * @param {Table} table
 * @param {Uint32Array} rows
 * @param {(row: number) => string} groupOf the name of a row's group; empty for none
 * @param {ReadonlySet<string>} open the names of the groups that are open
 * @returns {import("./types").Layout}
 */
export function groupedRows(table, rows, groupOf, open) {
  const price = columnOf(table, "gpu_hourly");
  const hourly = columnOf(table, "hourly");
  /** @type {Map<string, { group: import("./types").Group, rows: number[] }>} */
  const found = new Map();
  /** @type {number[]} */
  const entries = [];
  for (const row of rows) {
    const name = groupOf(row);
    if (!name) {
      entries.push(row);
      continue;
    }
    let one = found.get(name);
    if (!one) {
      const group = { name, count: 0, least: NaN, hasGpu: false, row, isOpen: open.has(name) };
      one = { group, rows: [] };
      found.set(name, one);
    }
    one.group.count++;
    const perGpu = price?.values[row] ?? NaN;
    const hasGpu = !Number.isNaN(perGpu);
    const value = hasGpu ? perGpu : (hourly?.values[row] ?? NaN);
    // The first machine with a GPU names the price, whatever those without one cost.
    if (hasGpu === one.group.hasGpu ? !(one.group.least <= value) : hasGpu)
      Object.assign(one.group, { least: value, hasGpu, row });
    if (one.group.isOpen) one.rows.push(row);
  }
  const groups = [...found.values()].sort(
    ({ group: a }, { group: b }) => Number(b.hasGpu) - Number(a.hasGpu) || a.least - b.least,
  );
  groups.forEach((one, i) => {
    entries.push(-1 - i);
    for (const row of one.rows) entries.push(row);
  });
  return {
    matched: rows,
    entries: Int32Array.from(entries),
    groups: groups.map((one) => one.group),
  };
}
