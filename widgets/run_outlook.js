// Since when a launch is as it is, what it waits for, until when, and what comes after.

import { duration } from "./format.js";

/** @typedef {import("./types").RunState} RunState */

/**
 * Return since when it is so and what comes next, for the first line of the panel.
 * @param {RunState} state
 * @param {number} now
 */
export function headline(state, now) {
  const { started, ended, next_pass: pass } = state;
  const since = started ? duration(now - started) : "";
  const parts = [];
  if (state.needs_launch) return "nothing is billed · next: press Launch";
  if (state.state === "ready") {
    if (state.is_running && ended !== null) parts.push(`for ${duration(now - ended)}`);
    if (state.hint) parts.push(`next: ${state.hint}`);
  } else if (state.is_final) {
    if (since && state.state !== "ended") parts.push(`after ${duration((ended ?? state.now) - started)}`);
  } else if (since) {
    parts.push(state.state === "launching" ? `for ${since}` : `launched ${since} ago`);
    if (pass !== null && pass > now) parts.push(`next: all places again in ${duration(pass - now)}`);
    else if (state.following) parts.push(`next: ${state.following}`);
  }
  return parts.join(" · ");
}

/**
 * Return one line on a launch that goes on; empty where it does not.
 * @param {RunState} state
 * @param {number} now
 */
export function outlook(state, now) {
  if (state.state !== "launching" || !state.started) return "";
  const parts = [];
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
  return parts.join(" · ");
}
