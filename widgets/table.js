// The price table's data in the browser: decoding, derived columns and the text of cells.

import { age, ageTone, count, DASH, duration, quantity, usd } from "./format.js";

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
// The levels of stock, the highest first.
export const STOCK_LEVELS = ["high", "medium", "low", "none"];
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
  /** @type {TableColumn | undefined} */
  const monthly = sent.some((column) => column.key === "gpu_hourly")
    ? {
        key: "monthly",
        label: "$/month",
        kind: "money",
        dtype: "f8",
        values: new Float64Array(head.rows),
        words: [],
      }
    : undefined;
  /** @type {Table} */
  const table = { ...head, sent, monthly, columns: [], renewals: 0, filled: 0 };
  table.columns = drawnColumns(table);
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
  table.sent.forEach((column, i) => {
    // Other values of it have come already, for these rows too.
    if (!column.isRenewed) fill(column, start, end, buffers[i]);
  });
  const monthly = columnOf(table, "monthly");
  const each = columnOf(table, "total") ?? columnOf(table, "hourly");
  for (let row = start; monthly && each && row < end; row++)
    monthly.values[row] = (each.values[row] ?? NaN) * MONTH_HOURS;
  table.filled = end;
}

/**
 * Give a column of a table other values, for all its rows.
 * @param {Table} table
 * @param {import("./types").ColumnHead} head
 * @param {ReadonlyArray<DataView | Uint8Array | ArrayBuffer>} buffers
 */
export function renewColumn(table, head, buffers) {
  const column = table.sent.find((one) => one.key === head.key);
  if (!column) return;
  const values = new ARRAYS[head.dtype](table.rows);
  const hidden = Boolean(head.hidden);
  Object.assign(column, head, { values, words: head.words ?? [], hidden, isRenewed: true });
  fill(column, 0, table.rows, buffers[0]);
  table.renewals++;
}

/**
 * Return the columns that are drawn, those derived in the browser included.
 * @param {Table} table
 */
export function drawnColumns(table) {
  const drawn = table.sent.filter((column) => !column.hidden);
  const at = drawn.findLastIndex((column) => ["hourly", "total"].includes(column.key)) + 1;
  if (table.monthly) drawn.splice(at, 0, table.monthly);
  return drawn;
}

/**
 * @param {Table} table
 * @param {string} key
 */
export function columnOf(table, key) {
  return table.columns.find((c) => c.key === key) ?? table.sent.find((c) => c.key === key);
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

// What tells one machine of a plan from another.
const IDENTITY = ["cloud", "region", "zone", "type", "gpu", "market"];

/**
 * Return the rows of a newer table that are the same machines as some rows of an older one.
 * @param {Table} older
 * @param {number[]} rows
 * @param {Table} newer
 */
export function sameMachines(older, rows, newer) {
  const named = (/** @type {Table} */ table) => {
    const columns = IDENTITY.map((key) => columnOf(table, key));
    return (/** @type {number} */ row) => columns.map((one) => wordOf(one, row)).join("\n");
  };
  const wanted = rows.map(named(older));
  const name = named(newer);
  const found = new Map(wanted.map((words) => [words, -1]));
  for (let row = newer.filled - 1; rows.length && row >= 0; row--)
    if (found.has(name(row))) found.set(name(row), row);
  return wanted.map((words) => found.get(words) ?? -1).filter((row) => row >= 0);
}

/**
 * Return how many rows of a table are shown, in words.
 * @param {Table} table
 * @param {Uint32Array} matched
 */
export function countText(table, matched) {
  const plural = (/** @type {number} */ n) => `${count(n)} ${table.noun}${n === 1 ? "" : "s"}`;
  const rows = table.rows - table.tail;
  if (table.filled < table.rows) return `${count(table.filled)} of ${plural(rows)} have arrived`;
  const found = matched.reduce((n, row) => n + Number(row < rows), 0);
  const shown = found < rows ? `${count(found)} of ${plural(rows)}` : plural(rows);
  return table.total > rows ? `${shown}; the first ${count(rows)} of ${count(table.total)}` : shown;
}

/**
 * Return the stock level that a cloud reported and its age; empty where there is none.
 * @param {string} word
 * @param {number} nowMs
 */
function stock(word, nowMs) {
  const age = nowMs / 1000 - Number(word.split("@")[1]);
  // Clouds answer about once a minute, so the seconds of an older answer tell nothing.
  return word && `${level(word)}, ${duration(age < 60 ? age : Math.floor(age / 60) * 60)} ago`;
}

/**
 * Return the level of a stock word, without the time behind it.
 * @param {string} word
 */
export function level(word) {
  return word.split("@")[0] ?? "";
}

/**
 * Return the stock of the last day as `dayBars` does.
 * @param {string} word
 */
function lastDay(word) {
  return dayBars(word.split("@")[2] ?? "");
}

/**
 * Return levels of stock as a line of bars, and in words; empty where too little is known.
 * @param {string} digits a level from 0 to 3 a period, or `-`
 */
export function dayBars(digits) {
  const known = digits.replaceAll("-", "");
  if (known.length < 2) return { bars: "", words: "" };
  const filled = known.replaceAll("0", "").length;
  const bars = [...digits].map((digit) => BARS[Number(digit)] ?? NO_BAR).join("");
  return { bars, words: `in stock at ${filled} of ${known.length} times in the last 24 h` };
}

/**
 * Return what a cell tells besides its text: its title, its tone, and the bars of its last day.
 * @param {TableColumn} column
 * @param {number} row
 * @param {string} text
 * @param {number} nowMs
 */
export function cellHints(column, row, text, nowMs) {
  const word = wordOf(column, row);
  const { bars, words } = column.kind === "stock" ? lastDay(word) : { bars: "", words: "" };
  // A price's date is that day in UTC, wherever the reader is.
  const date = column.kind === "date" && word !== text ? word && `${word} UTC` : "";
  const tone = column.kind === "date" ? ageTone(word, nowMs) : "";
  return { bars, tone, title: words || date || (text.length > 18 ? text : "") };
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
// What follows a level, at its longest, and the room that the bars of a day take behind it.
const STOCK_AGE = ", 59 min ago";
const BARS_CH = 10;
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
  } else if (column.kind === "stock") {
    for (const word of column.words.filter(Boolean)) {
      const bars = lastDay(word).bars ? BARS_CH : 0;
      widest = Math.max(widest, (level(word) + STOCK_AGE).length * LETTER_CH + 1 + bars);
    }
    return widest;
  } else {
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
  return Math.min(widest, WIDEST_CH);
}
