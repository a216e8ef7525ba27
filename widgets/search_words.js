// What the words in the search box mean, and which rows they match.

import { columnOf, isText, level } from "./table.js";

/** @typedef {import("./types").Table} Table */
/** @typedef {import("./types").TableColumn} TableColumn */
/** @typedef {(row: number) => boolean} Test */

/** @type {Record<string, string>} */
const CONTINENTS = {
  africa: "af",
  america: "na",
  asia: "as",
  eu: "eu",
  europe: "eu",
  "middle east": "me",
  "north america": "na",
  oceania: "oc",
  "south america": "sa",
};
/** @type {Record<string, string>} */
const COUNTRIES = { uk: "GB", usa: "US", america: "US", korea: "KR", holland: "NL", uae: "AE" };
/** @type {Record<string, string>} */
const MARKETS = { spot: "spot", "on-demand": "on-demand", ondemand: "on-demand" };
// GiB in a GB, and how far a size may be from the one asked for: makers round in both ways.
const GIB = 2 ** 30 / 1e9;
const SIZE_SLACK = 0.03;
const NAMES = new Intl.DisplayNames(["en"], { type: "region" });

/**
 * Return the English name of a country, or its code where that is no country's.
 * @param {string} code
 */
export function countryName(code) {
  try {
    return NAMES.of(code) ?? code;
  } catch {
    return code;
  }
}

/**
 * Return a test for rows whose word in a column has a property; each word is looked at once.
 * @param {TableColumn | undefined} column
 * @param {(word: string) => boolean} has
 * @returns {Test | null} null where no word has it
 */
function byWord(column, has) {
  const hits = column?.words.map(has);
  if (!column || !hits?.includes(true)) return null;
  const { values } = column;
  return (row) => hits[values[row] ?? -1] ?? false;
}

/**
 * @param {readonly (Test | null)[]} tests
 * @returns {Test | null}
 */
function anyOf(tests) {
  const some = tests.filter((test) => test !== null);
  return some.length ? (row) => some.some((test) => test(row)) : null;
}

/**
 * Return whether a word stands in a text as a word of its own: `a10` in `A10:1`, not in `A100:1`.
 * @param {string} text
 * @param {string} word
 */
function standsIn(text, word) {
  for (let at = text.indexOf(word); at >= 0; at = text.indexOf(word, at + 1)) {
    const edges = (text[at - 1] ?? " ") + (text[at + word.length] ?? " ");
    if (!/[a-z0-9]/.test(edges)) return true;
  }
  return false;
}

/**
 * Return the test of a word that has a meaning of its own: a market, a place, a size, a price.
 * @param {Table} table
 * @param {string} word
 * @returns {Test | null}
 */
function meaning(table, word) {
  const market = MARKETS[word];
  if (market) return byWord(columnOf(table, "market"), (w) => w === market);
  const size = /^(\d+(?:\.\d+)?)\s?(?:gb|gib)$/.exec(word);
  if (size) return bySize(columnOf(table, "gpu_memory"), Number(size[1]));
  const price = /^<=?\$?(\d+(?:\.\d+)?)$/.exec(word);
  if (price) return byPrice(columnOf(table, "hourly"), Number(price[1]));
  const number = /^(?:x(\d+)|(\d+)x)$/.exec(word);
  if (number)
    return byWord(columnOf(table, "gpu"), (w) => w.endsWith(`:${number[1] ?? number[2]}`));
  const country = columnOf(table, "country");
  const continent = CONTINENTS[word];
  return anyOf([
    continent ? byWord(columnOf(table, "continent"), (w) => w === continent) : null,
    byWord(country, (w) => w !== "" && w === (COUNTRIES[word] ?? word.toUpperCase())),
    word.length > 3
      ? byWord(country, (w) => w !== "" && countryName(w).toLowerCase().startsWith(word))
      : null,
  ]);
}

/**
 * @param {TableColumn | undefined} memory
 * @param {number} wanted
 * @returns {Test | null}
 */
function bySize(memory, wanted) {
  if (!memory) return null;
  const slack = wanted * SIZE_SLACK;
  return (row) => {
    const gib = memory.values[row] ?? NaN;
    return Math.abs(gib - wanted) <= slack || Math.abs(gib * GIB - wanted) <= slack;
  };
}

/**
 * @param {TableColumn | undefined} hourly
 * @param {number} dollars
 * @returns {Test | null}
 */
export function byPrice(hourly, dollars) {
  // A row with an unknown price does not match, since it may be above the limit.
  return hourly ? (row) => (hourly.values[row] ?? NaN) <= dollars * 1e6 + 0.5 : null;
}

/**
 * Return the test of a word that is looked for in the texts of a row.
 *
 * It is looked for as a word of its own. Only where no text of the table holds it as such, and it
 * has no other meaning, it is looked for at the start of words, and then anywhere.
 * @param {Table} table
 * @param {string} word
 * @param {boolean} isLoose
 * @returns {Test | null}
 */
function inTexts(table, word, isLoose) {
  const texts = table.columns.filter((c) => isText(c) && c.key !== "market");
  /** @param {(text: string) => boolean} has */
  const where = (has) =>
    anyOf(
      texts.map((c) => byWord(c, (w) => has((c.kind === "stock" ? level(w) : w).toLowerCase()))),
    );
  const own = where((text) => standsIn(text, word));
  if (own || !isLoose) return own;
  return (
    where((text) => text.split(/[^a-z0-9]+/).some((part) => part.startsWith(word))) ??
    where((text) => text.includes(word))
  );
}

/**
 * Return a test for the rows that match all words of the search box.
 *
 * @example
 * `h100 europe`, `germany 80gb`, `spot <2`, `8x a100`
 * @param {Table} table
 * @param {string} text
 * @returns {Test}
 */
export function searchTest(table, text) {
  const words = text.toLowerCase().trim().split(/\s+/).filter(Boolean);
  /** @type {Test[]} */
  const tests = [];
  for (let i = 0; i < words.length; i++) {
    const two = i + 1 < words.length ? meaning(table, `${words[i]} ${words[i + 1]}`) : null;
    const word = words[i] ?? "";
    const meant = two ?? meaning(table, word);
    const said = two || isValue(word) ? null : inTexts(table, word, !meant);
    tests.push(anyOf([meant, said]) ?? (() => false));
    if (two) i++;
  }
  return (row) => tests.every((test) => test(row));
}

/**
 * Return whether a word is a market, a size, a price or a number of GPUs, and never part of a name.
 * @param {string} word
 */
function isValue(word) {
  return word in MARKETS || /^<|^\d+(\.\d+)?(gb|gib)$|^x\d+$|^\d+x$/.test(word);
}
