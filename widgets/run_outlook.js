// What a launch under way waits for, until when, and what comes after.

import { duration } from "./format.js";

/** @typedef {import("./types").RunState} RunState */

/**
 * Return one line on a launch that goes on; empty where it does not.
 * @param {RunState} state
 * @param {number} now
 */
export function outlook(state, now) {
  if (state.state !== "launching" || !state.started) return "";
  const parts = [`launched ${duration(now - state.started)} ago`];
  const active = state.attempts.filter((a) => a.cut_off !== null || a.ended === null);
  const latest = active.at(-1);
  if (latest?.usual != null) {
    const rest = latest.started + latest.usual - now;
    parts.push(
      rest > 0
        ? `usually ready within ${duration(rest)} from now`
        : `usually ready after ${duration(latest.usual)}: later than most`,
    );
  }
  if (latest?.cut_off != null && latest.cut_off > now) {
    parts.push(`${latest.look.words} is given up in ${duration(latest.cut_off - now)}`);
  }
  if (state.following) parts.push(`next: ${state.following}`);
  return parts.join(" · ");
}
