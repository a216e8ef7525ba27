// The price table's data in the browser: decoding, derived columns and the text of cells.

import { age, DASH, duration, quantity, usd } from "./format.js";

/** @typedef {import("./types").Table} Table */
/** @typedef {import("./types").TableColumn} TableColumn */

const ARRAYS = {
  u1: Uint8Array,
  u2: Uint16Array,
  u4: Uint32Array,
  i4: Int32Array,
  f4: Float32Array,
  f8: Float64Array,
};
// The hours of a month, as clouds count them.
const MONTH_HOURS = 730;
// The columns of which the first one stands behind the stock.
const AFTER_STOCK = ["chance", "cloud", "region", "type", "as_of"];
// How the levels of stock of the last day are drawn, from none to high.
const BARS = ["▁", "▃", "▅", "▇"];
const NO_BAR = "·";

/**
 * Decode the first page of a table.
 * @param {import("./types").TableHead} head
 * @param {ReadonlyArray<DataView | Uint8Array | ArrayBuffer>} buffers
 * @param {number} [end] the rows of this page
 * @returns {Table}
 */
export function decodeTable(head, buffers, end = head.rows) {
  const sent = head.columns.map((column) => ({
    ...column,
    values: new ARRAYS[column.dtype](head.rows),
    words: column.words ?? [],
  }));
  const drawn = sent.filter((column) => !column.hidden);
  const table = { ...head, sent, columns: drawn, added: [], filled: 0 };
  if (sent.some((column) => column.key === "gpu_hourly")) {
    const at = drawn.findLastIndex((column) => ["hourly", "total"].includes(column.key)) + 1;
    drawn.splice(at, 0, {
      key: "monthly",
      label: "$/month",
      kind: "money",
      dtype: "f8",
      values: new Float64Array(head.rows),
      words: [],
    });
  }
  takePage(table, 0, end, buffers);
  return table;
}

/**
 * Set the values of a column in some rows.
 * @param {TableColumn} column
 * @param {number} start
 * @param {number} end
 * @param {DataView | Uint8Array | ArrayBuffer | undefined} given
 */
function fill(column, start, end, given) {
  if (!given) throw new Error(`column ${column.key} has no values`);
  const bytes = ArrayBuffer.isView(given)
    ? given.buffer.slice(given.byteOffset, given.byteOffset + given.byteLength)
    : given.slice(0);
  const values = new ARRAYS[column.dtype](/** @type {ArrayBuffer} */ (bytes));
  if (values.length !== end - start)
    throw new Error(`column ${column.key} has ${values.length} values for ${end - start} rows`);
  column.values.set(values, start);
}

/**
 * Take in the rows of a page. Buffers are copied, because they may not be aligned.
 * @param {Table} table
 * @param {number} start
 * @param {number} end
 * @param {ReadonlyArray<DataView | Uint8Array | ArrayBuffer>} buffers
 */
export function takePage(table, start, end, buffers) {
  table.sent.forEach((column, i) => fill(column, start, end, buffers[i]));
  const monthly = columnOf(table, "monthly");
  const each = columnOf(table, "total") ?? columnOf(table, "hourly");
  for (let row = start; monthly && each && row < end; row++)
    monthly.values[row] = (each.values[row] ?? NaN) * MONTH_HOURS;
  table.filled = end;
}

/**
 * Decode one column that comes by itself, with all its rows.
 * @param {import("./types").ColumnHead} head
 * @param {number} rows
 * @param {ReadonlyArray<DataView | Uint8Array | ArrayBuffer>} buffers
 * @returns {TableColumn}
 */
export function decodeColumn(head, rows, buffers) {
  const column = { ...head, values: new ARRAYS[head.dtype](rows), words: head.words ?? [] };
  fill(column, 0, rows, buffers[0]);
  return column;
}

/**
 * Put a column in the place of the one with its key, or before those that say where it is.
 * @param {TableColumn[]} columns
 * @param {TableColumn} column
 * @returns {TableColumn[]}
 */
export function withColumn(columns, column) {
  const others = columns.filter((one) => one.key !== column.key);
  const there = columns.findIndex((one) => one.key === column.key);
  const next = others.findIndex((one) => AFTER_STOCK.includes(one.key));
  others.splice(there >= 0 ? there : next >= 0 ? next : others.length, 0, column);
  return others;
}

/**
 * @param {Table} table
 * @param {string} key
 */
export function columnOf(table, key) {
  const found = (/** @type {TableColumn[]} */ columns) => columns.find((c) => c.key === key);
  return found(table.columns) ?? found(table.added) ?? found(table.sent);
}

/**
 * Return why a row is grey; empty where it is not.
 * @param {Table} table
 * @param {number} row
 */
export function whyOff(table, row) {
  return wordOf(columnOf(table, "off"), row);
}

/**
 * Whether a column holds words.
 * @param {TableColumn} column
 */
export function isText(column) {
  return column.kind === "text" || column.kind === "date" || column.kind === "stock";
}

/**
 * Return the word of a coded column in a row; empty where there is none.
 * @param {TableColumn | undefined} column
 * @param {number} row
 */
export function wordOf(column, row) {
  return column?.words[column.values[row] ?? -1] ?? "";
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
export function level(word) {
  return word.split("@")[0] ?? "";
}

/**
 * Return the stock of the last day as a line of bars, and in words; empty where too little is known.
 * @param {string} word
 */
function lastDay(word) {
  const digits = word.split("@")[2] ?? "";
  const known = digits.replaceAll("-", "");
  if (known.length < 2) return { bars: "", words: "" };
  const filled = known.replaceAll("0", "").length;
  const bars = [...digits].map((digit) => BARS[Number(digit)] ?? NO_BAR).join("");
  return { bars, words: `last 24 h: in stock in ${filled} of ${known.length} periods of 2 h` };
}

/**
 * Return what stands beside the text of a cell: its title, and the bars behind it.
 * @param {TableColumn} column
 * @param {number} row
 * @param {string} text
 */
export function besideCell(column, row, text) {
  const word = wordOf(column, row);
  const { bars, words } = column.kind === "stock" ? lastDay(word) : { bars: "", words: "" };
  return { bars, title: words || (column.kind === "date" ? word : text.length > 18 ? text : "") };
}

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

const WIDEST_CH = 24;
// The length of "medium, 59 min 59 s ago", and with the bars of a day behind it.
const STOCK_CH = 23;
const WITH_BARS_CH = 30;
// Rows that are measured for the width of a column.
const MEASURED_ROWS = 200;
// The width of a capital letter in a bold header, such as GPU.
const CAPITAL_CH = 1.35;
// Letters are on average narrower than the digit that `ch` measures.
const LETTER_CH = 0.95;

/**
 * Return the width of a column in characters, by its first rows.
 * @param {TableColumn} column
 * @param {number} nowMs
 * @param {number} [rows] how many rows are there already
 */
export function columnWidth(column, nowMs, rows = column.values.length) {
  let widest = column.label.length * (/^[A-Z]+$/.test(column.label) ? CAPITAL_CH : 1) + 1.5;
  if (column.kind === "text") {
    for (const word of column.words) widest = Math.max(widest, word.length * LETTER_CH + 1);
  } else if (column.kind === "stock")
    widest = column.words.some((word) => lastDay(word).bars) ? WITH_BARS_CH : STOCK_CH;
  else {
    let largest = 0;
    for (let row = 1; row < rows; row++) {
      if (
        (column.values[row] ?? 0) > (column.values[largest] ?? 0) ||
        Number.isNaN(column.values[largest])
      )
        largest = row;
    }
    for (const row of [largest, ...Array(Math.min(MEASURED_ROWS, rows)).keys()])
      if (row < rows)
        widest = Math.max(widest, cellText(column, row, nowMs).length);
  }
  return Math.min(widest, column.kind === "stock" ? WITH_BARS_CH : WIDEST_CH);
}
