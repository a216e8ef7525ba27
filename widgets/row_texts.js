// Rows of the price table as text: a cell that launches them, and lines for a spreadsheet.

import { MICROS } from "./format.js";
import { columnOf, isText, level, wordOf } from "./table.js";

/** @typedef {import("./types").Table} Table */
/** @typedef {import("./types").TableColumn} TableColumn */

const PLAIN = /^[A-Za-z][\w./:-]*$/;
// Words that other readers of YAML take for something else than text.
const NOT_TEXT = /^(true|false|yes|no|on|off|null|y|n)$/i;

/**
 * Return a text as YAML, in quotes where it needs them.
 * @param {string} text
 */
function scalar(text) {
  return PLAIN.test(text) && !text.endsWith(":") && !NOT_TEXT.test(text)
    ? text
    : JSON.stringify(text);
}

/**
 * Return the fields of `resources` that name the machine of a row and its place.
 * @param {Table} table
 * @param {number} row
 * @returns {[string, string][]}
 */
function fieldsOf(table, row) {
  const word = (/** @type {string} */ key) => wordOf(columnOf(table, key), row);
  /** @type {[string, string][]} */
  const fields = [
    ["cloud", word("cloud")],
    ["region", word("region")],
    ["zone", word("zone")],
    ["instance_type", word("type")],
    ["accelerators", word("gpu")],
  ];
  const known = fields.filter(([, value]) => value);
  return word("market") === "spot" ? [...known, ["use_spot", "true"]] : known;
}

/**
 * Return a `%%provision` cell that launches one of these rows, the cheapest that can be had.
 * @param {Table} table
 * @param {readonly number[]} rows
 */
export function cellOf(table, rows) {
  const written = rows.map((row) =>
    fieldsOf(table, row).map(
      ([key, value]) => `${key}: ${key === "use_spot" ? value : scalar(value)}`,
    ),
  );
  const [first] = written;
  const lines =
    written.length === 1 && first
      ? first.map((line) => `  ${line}`)
      : ["  any_of:", ...written.map((one) => `    - {${one.join(", ")}}`)];
  return ["%%provision", "resources:", ...lines, ""].join("\n");
}

/**
 * Return a cell of a table as a spreadsheet takes it: money in dollars, an unknown value as nothing.
 * @param {TableColumn} column
 * @param {number} row
 */
function plain(column, row) {
  if (column.kind === "stock") return level(wordOf(column, row));
  if (isText(column)) return wordOf(column, row);
  const value = column.values[row] ?? NaN;
  if (Number.isNaN(value) || (column.kind === "rank" && value < 0)) return "";
  if (column.kind === "rank") return String(value + 1);
  return String(Number((column.kind === "money" ? value / MICROS : value).toPrecision(9)));
}

/**
 * Return rows as lines of cells with a line of column names.
 * @param {Table} table
 * @param {Iterable<number>} rows
 * @param {"," | "\t"} mark
 */
export function linesOf(table, rows, mark) {
  const quoted = (/** @type {string} */ text) =>
    /[",\n\r\t]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  const lines = [table.columns.map((c) => quoted(c.label)).join(mark)];
  for (const row of rows)
    lines.push(table.columns.map((c) => quoted(plain(c, row))).join(mark));
  return `${lines.join("\r\n")}\r\n`;
}
