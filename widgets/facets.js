// The facets of the price table: what rows can be chosen by, with how many rows each choice has.

import { countryName } from "./search_words.js";
import { columnOf, level, STOCK_LEVELS } from "./table.js";

/** @typedef {import("./types").Table} Table */
/** @typedef {import("./types").TableColumn} TableColumn */
/** @typedef {import("./types").Facet} Facet */

/** @type {Record<string, string>} */
const CONTINENT_NAMES = {
  af: "Africa",
  as: "Asia",
  eu: "Europe",
  me: "Middle East",
  na: "North America",
  oc: "Oceania",
  sa: "South America",
};

/**
 * A facet over the words of a coded column.
 * @param {Table} table
 * @param {string} key
 * @param {string} label
 * @param {string} column
 * @param {(word: string) => string} name the choice that a word belongs to; empty for none
 * @returns {Facet[]}
 */
function ofWords(table, key, label, column, name = (word) => word) {
  const found = columnOf(table, column);
  if (!found) return [];
  /** @type {Map<string, number>} */
  const index = new Map();
  const codes = found.words.map((word) => {
    const choice = name(word);
    if (!choice) return -1;
    if (!index.has(choice)) index.set(choice, index.size);
    return index.get(choice) ?? -1;
  });
  const { values } = found;
  return [{ key, label, choices: [...index.keys()], codeOf: (row) => codes[values[row] ?? 0] ?? -1 }];
}

/**
 * A facet over the distinct values of a numeric column, in whole units.
 * @param {Table} table
 * @param {string} key
 * @param {string} label
 * @param {string} column
 * @param {string} unit
 * @returns {Facet[]}
 */
function ofNumbers(table, key, label, column, unit) {
  const found = columnOf(table, column);
  if (!found) return [];
  /** @type {Map<number, number>} */
  const index = new Map();
  for (let row = 0; row < table.filled; row++) {
    const value = Math.round(found.values[row] ?? NaN);
    if (!Number.isNaN(value) && !index.has(value)) index.set(value, index.size);
  }
  const { values } = found;
  return [
    {
      key,
      label,
      choices: [...index.keys()].map((value) => `${value} ${unit}`),
      codeOf: (row) => index.get(Math.round(values[row] ?? NaN)) ?? -1,
    },
  ];
}

/**
 * The facet of stock. It has every level, because one that is chosen may come and go.
 * @param {Table} table
 * @returns {Facet[]}
 */
function ofStock(table) {
  const found = columnOf(table, "stock");
  if (!found || found.hidden) return [];
  const codes = found.words.map((word) => STOCK_LEVELS.indexOf(level(word)));
  return [
    {
      key: "stock",
      label: "stock",
      choices: STOCK_LEVELS.map((name) => `stock: ${name}`),
      codeOf: (row) => codes[found.values[row] ?? 0] ?? -1,
    },
  ];
}

/**
 * Return the facets of a table that have at least two choices.
 * @param {Table} table
 * @returns {Facet[]}
 */
export function facetsOf(table) {
  return [
    ...ofWords(table, "gpu", "GPU", "gpu", (word) => word.split(":")[0] ?? ""),
    ...ofWords(table, "count", "GPUs", "gpu", (word) => word.split(":")[1] ?? ""),
    ...ofNumbers(table, "memory", "GPU memory", "gpu_memory", "GiB"),
    ...ofWords(table, "cloud", "cloud", "cloud"),
    ...ofWords(table, "continent", "continent", "continent", (w) => CONTINENT_NAMES[w] ?? w),
    ...ofWords(table, "country", "country", "country", (w) => w && countryName(w)),
    ...ofWords(table, "region", "region", "region"),
    ...ofWords(table, "market", "market", "market"),
    ...ofStock(table),
    ...ofWords(table, "mine", "set up", "off", (w) => (w ? "not set up" : "set up")),
  ].filter((facet) => facet.choices.length > 1);
}

/**
 * Return the rows that every facet lets through, and how many rows each choice would have.
 *
 * A choice is counted over the rows that all other facets let through, so that a second choice of
 * the same facet shows what it would add.
 * @param {readonly Facet[]} facets
 * @param {ReadonlyMap<string, ReadonlySet<string>>} chosen by the facet's key
 * @param {Uint32Array} rows
 * @returns {{ rows: Uint32Array, counts: Map<string, Uint32Array> }}
 */
export function throughFacets(facets, chosen, rows) {
  const active = facets.flatMap((facet) => {
    const picks = chosen.get(facet.key);
    return picks?.size ? [{ facet, codes: facet.choices.map((name) => picks.has(name)) }] : [];
  });
  const counts = new Map(facets.map((f) => [f.key, new Uint32Array(f.choices.length)]));
  const counted = facets.map((f) => ({ facet: f, into: counts.get(f.key) ?? new Uint32Array(0) }));
  const passed = new Uint32Array(rows.length);
  let size = 0;
  for (const row of rows) {
    let failed = 0;
    /** @type {Facet | undefined} */
    let only;
    for (const { facet, codes } of active) {
      if (codes[facet.codeOf(row)]) continue;
      failed++;
      only = facet;
    }
    if (failed > 1) continue;
    if (!failed) passed[size++] = row;
    for (const { facet, into } of counted) {
      if (failed && facet !== only) continue;
      const code = facet.codeOf(row);
      if (code >= 0) into[code] = (into[code] ?? 0) + 1;
    }
  }
  return { rows: passed.slice(0, size), counts };
}
