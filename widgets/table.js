// The price table's data in the browser: decoding, sorting and filtering, without the DOM.

import { age, DASH, duration, quantity, usd } from "./format.js";

/** @typedef {import("./types").Table} Table */
/** @typedef {import("./types").TableColumn} TableColumn */

const ARRAYS = {
  u2: Uint16Array,
  u4: Uint32Array,
  i4: Int32Array,
  f4: Float32Array,
  f8: Float64Array,
};

/**
 * Decode a table message. Buffers are copied, because they may not be aligned for typed arrays.
 * @param {import("./types").TableHead} head
 * @param {ReadonlyArray<DataView | Uint8Array | ArrayBuffer>} buffers
 * @returns {Table}
 */
export function decodeTable(head, buffers) {
  const columns = head.columns.map((column, i) => {
    const given = buffers[i];
    if (!given) throw new Error(`column ${column.key} has no values`);
    const bytes = ArrayBuffer.isView(given)
      ? given.buffer.slice(given.byteOffset, given.byteOffset + given.byteLength)
      : given.slice(0);
    const values = new ARRAYS[column.dtype](/** @type {ArrayBuffer} */ (bytes));
    if (values.length !== head.rows)
      throw new Error(`column ${column.key} has ${values.length} values for ${head.rows} rows`);
    return { ...column, values, words: column.words ?? [] };
  });
  return {
    ...head,
    columns: columns.filter((c) => c.key !== "off"),
    off: columns.find((c) => c.key === "off"),
  };
}

/**
 * Return why a row is grey; empty where it is not.
 * @param {Table} table
 * @param {number} row
 */
export function whyOff(table, row) {
  return table.off?.words[table.off.values[row] ?? -1] ?? "";
}

/** @param {TableColumn} column */
export function isText(column) {
  return column.kind === "text" || column.kind === "date" || column.kind === "stock";
}

/**
 * Return the stock level that a cloud reported and its age; empty where there is none.
 * @param {string} word
 * @param {number} nowMs
 */
function stock(word, nowMs) {
  return word && `${level(word)}, ${duration(nowMs / 1000 - Number(word.split("@")[1]))} ago`;
}

/**
 * Return the level of a stock word, without the time behind it.
 * @param {string} word
 */
function level(word) {
  return word.split("@")[0] ?? "";
}

/**
 * The order of stock levels, the highest first.
 * @type {Record<string, number>}
 */
const LEVELS = { high: 0, medium: 1, low: 2, none: 3 };

/**
 * Return a cell as a person reads it.
 * @param {TableColumn} column
 * @param {number} row
 * @param {number} nowMs
 */
export function cellText(column, row, nowMs) {
  const value = column.values[row] ?? NaN;
  switch (column.kind) {
    case "text":
      return column.words[value] || DASH;
    case "date":
      return age(column.words[value] ?? "", nowMs);
    case "stock":
      return stock(column.words[value] ?? "", nowMs);
    case "rank":
      return value < 0 ? DASH : String(value + 1);
    case "money":
      return Number.isNaN(value) ? DASH : usd(value);
    default:
      return quantity(value);
  }
}

const COLLATOR = new Intl.Collator("en", { numeric: true, sensitivity: "base" });

/**
 * Return the sort key of each row; NaN where the value is unknown.
 * @param {TableColumn} column
 * @returns {ArrayLike<number>}
 */
function sortKeys(column) {
  // A negative rank marks a row that no launch uses.
  if (column.kind === "rank") return Float64Array.from(column.values, (v) => (v < 0 ? NaN : v));
  if (column.kind === "stock")
    return Float64Array.from(
      column.values,
      (code) => LEVELS[level(column.words[code] ?? "")] ?? NaN,
    );
  if (!isText(column)) return column.values;
  const order = column.words
    .map((_, i) => i)
    .sort((a, b) => COLLATOR.compare(column.words[a] ?? "", column.words[b] ?? ""));
  const rankOf = new Float64Array(column.words.length);
  order.forEach((word, place) => (rankOf[word] = column.words[word] ? place : NaN));
  // The column shows ages, which sort the other way round than their dates.
  const sign = column.kind === "date" ? -1 : 1;
  return Float64Array.from(column.values, (code) => sign * (rankOf[code] ?? NaN));
}

/**
 * Return all rows in the wanted order. Unknown values come last in both directions, and equal
 * ones keep the order of the plan.
 * @param {Table} table
 * @param {import("./types").Sorting} sorting
 */
export function sortedRows(table, sorting) {
  const rows = Uint32Array.from({ length: table.rows }, (_, i) => i);
  const column = table.columns.find((c) => c.key === sorting.key);
  if (!column || sorting.direction === 0) return rows;
  const keys = sortKeys(column);
  const direction = sorting.direction;
  return rows.sort((a, b) => {
    const x = keys[a] ?? NaN;
    const y = keys[b] ?? NaN;
    if (x === y) return a - b;
    if (x !== x) return y !== y ? a - b : 1;
    if (y !== y) return -1;
    return direction * (x - y);
  });
}

/**
 * Return the next sorting after a press on a header: upwards, downwards, the plan's order.
 * @param {import("./types").Sorting} sorting
 * @param {string} key
 * @returns {import("./types").Sorting}
 */
export function nextSorting(sorting, key) {
  if (sorting.key !== key || sorting.direction === 0) return { key, direction: 1 };
  return sorting.direction === 1 ? { key, direction: -1 } : { key: "", direction: 0 };
}

/**
 * Return the rows of `order` that match the filter.
 * @param {Table} table
 * @param {Uint32Array} order
 * @param {import("./types").Filter} filter
 */
export function filteredRows(table, order, filter) {
  const texts = table.columns.filter(isText);
  // Each word is searched once in each dictionary, not once in each row.
  const needles = filter.text.toLowerCase().split(/\s+/).filter(Boolean);
  const hits = needles.map((needle) =>
    texts.map((c) =>
      c.words.map((w) => (c.kind === "stock" ? level(w) : w).toLowerCase().includes(needle)),
    ),
  );
  const price = filter.most === null ? undefined : table.columns.find((c) => c.key === "hourly");
  const most = (filter.most ?? 0) * 1e6 + 0.5;
  const market = table.columns.find((c) => c.key === "market");
  const wanted = filter.market && market ? market.words.indexOf(filter.market) : -1;
  const isByMarket = Boolean(filter.market && market);
  return order.filter((row) => {
    // A row with an unknown price does not match, since it may be above the limit.
    if (price && !((price.values[row] ?? NaN) <= most)) return false;
    if (isByMarket && market?.values[row] !== wanted) return false;
    return hits.every((hit) => texts.some((column, i) => hit[i]?.[column.values[row] ?? -1]));
  });
}

const WIDEST_CH = 24;
// Rows that are measured for the width of a column.
const MEASURED_ROWS = 200;
// The width of a capital letter in a bold header, such as GPU.
const CAPITAL_CH = 1.35;
// Letters are on average narrower than the digit that `ch` measures.
const LETTER_CH = 0.95;

/**
 * Return the table without its empty columns, which would push the others out of sight.
 * @param {Table} table
 * @returns {Table}
 */
export function withoutEmptyColumns(table) {
  if (!table.rows) return table;
  return {
    ...table,
    columns: table.columns.filter((c) =>
      isText(c) ? c.words.some(Boolean) : c.values.some((v) => !Number.isNaN(v)),
    ),
  };
}

/**
 * Return the width of a column in characters.
 * @param {TableColumn} column
 * @param {number} nowMs
 */
export function columnWidth(column, nowMs) {
  let widest = column.label.length * (/^[A-Z]+$/.test(column.label) ? CAPITAL_CH : 1) + 1.5;
  if (column.kind === "text") {
    for (const word of column.words) widest = Math.max(widest, word.length * LETTER_CH + 1);
  } else if (column.kind === "stock")
    widest = 23; // the length of "medium, 59 min 59 s ago"
  else {
    let largest = 0;
    for (let row = 1; row < column.values.length; row++) {
      if (
        (column.values[row] ?? 0) > (column.values[largest] ?? 0) ||
        Number.isNaN(column.values[largest])
      )
        largest = row;
    }
    const rows = [largest, ...Array(Math.min(MEASURED_ROWS, column.values.length)).keys()];
    for (const row of rows)
      if (row < column.values.length)
        widest = Math.max(widest, cellText(column, row, nowMs).length);
  }
  return Math.min(widest, WIDEST_CH);
}
