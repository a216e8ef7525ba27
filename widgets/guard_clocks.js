// The guards of a cluster as clocks that run.

import { duration } from "./format.js";

/** @typedef {import("./types").GuardClock} GuardClock */

/** @param {GuardClock} clock @param {number} now */
function clockWords({ words, due, note }, now) {
  if (due === null) return note ? `${words}: ${note}` : words;
  const left = due - now;
  return left > 0 ? `${words}: ${duration(left)} left ${note}`.trim() : `${words}: due now`;
}

/**
 * Return what will end a cluster, a line each, with the time left.
 * @param {GuardClock[]} clocks
 * @param {string} notes
 * @param {number} now
 */
export function guardLines(clocks, notes, now) {
  const lines = clocks.map((clock) => clockWords(clock, now));
  return [...lines, notes].filter(Boolean).join("\n");
}
