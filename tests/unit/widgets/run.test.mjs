// A launch on one time axis, and what is said of what it waits for.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import { lanesOf, lastInstant, spansOf, ticksOf } from "../../../widgets/run_lanes.js";
import { headline, outlook } from "../../../widgets/run_outlook.js";

const attempt = (fields) => ({
  place: "aws/use1-az1",
  instance_type: "p4d",
  market: "on-demand",
  look: { words: "booting", shape: "half", tone: "busy" },
  started: 100,
  ended: null,
  is_kept: false,
  phases: [],
  cut_off: null,
  usual: null,
  ...fields,
});

test("attempts at one place share a lane, and markets do not", () => {
  const lanes = lanesOf([
    attempt({ key: "1" }),
    attempt({ key: "2", place: "aws/use1-az2" }),
    attempt({ key: "3" }),
    attempt({ key: "4", market: "spot" }),
  ]);
  assert.deepEqual(
    lanes.map((lane) => [lane.label, lane.attempts.length]),
    [
      ["aws/use1-az1 p4d", 2],
      ["aws/use1-az2 p4d", 1],
      ["aws/use1-az1 p4d spot", 1],
    ],
  );
});

const PHASES = [
  { words: "about to request", tone: "busy", since: 100.2 },
  { words: "booting", tone: "busy", since: 104 },
  { words: "waiting for ssh", tone: "busy", since: 110 },
];

test("a phase lasts until the next one, and the last until now", () => {
  const spans = spansOf(attempt({ phases: PHASES }), 130);
  assert.deepEqual(
    spans.map((span) => [span.words, span.from, span.to]),
    [
      ["about to request", 100, 104],
      ["booting", 104, 110],
      ["waiting for ssh", 110, 130],
    ],
  );
});

test("a refusal is one span, and what was kept is good from end to end", () => {
  const bad = { words: "refused", shape: "cross", tone: "bad" };
  const refused = spansOf(attempt({ phases: PHASES, look: bad, ended: 120 }), 130);
  assert.deepEqual(refused, [{ words: "refused", tone: "bad", from: 100, to: 120 }]);
  const kept = spansOf(attempt({ phases: PHASES, is_kept: true, ended: 120 }), 130);
  assert.deepEqual([...new Set(kept.map((span) => span.tone))], ["good"]);
  assert.equal(kept.at(-1).to, 120);
});

test("the axis has few ticks at round times, however long it is", () => {
  assert.deepEqual(ticksOf(4), [0, 1, 2, 3, 4]);
  assert.deepEqual(ticksOf(47), [0, 10, 20, 30, 40]);
  assert.deepEqual(ticksOf(400), [0, 120, 240, 360]);
  for (const whole of [1, 59, 61, 3599, 90_000, 4e6]) assert.ok(ticksOf(whole).length <= 6);
});

test("the axis of a launch that is over ends with its last attempt, whenever it is looked at", () => {
  const over = {
    is_final: true,
    started: 100,
    now: 900,
    attempts: [attempt({ ended: 120 }), attempt({ ended: 160 })],
  };
  assert.equal(lastInstant(over, 900), 160);
  assert.equal(lastInstant(over, 90_000), 160);
  assert.equal(lastInstant({ ...over, is_final: false }, 900), 900, "it goes on");
  const ending = { ...over, attempts: [attempt({ ended: null })] };
  assert.equal(lastInstant(ending, 900), 900, "a machine of it is still being ended");
  assert.equal(lastInstant({ ...over, attempts: [] }, 900), 101, "never an axis without length");
});

// The cases are also those of the saved forms, which say points in time.
const cases = JSON.parse(readFileSync(new URL("./headline_cases.json", import.meta.url), "utf8"));

for (const { case: name, state, live } of cases)
  test(`the first line where ${name}`, () => assert.equal(headline(state, state.now), live));

test("what is waited for is said with its times, and nothing once it is over", () => {
  const state = {
    state: "launching",
    started: 90,
    attempts: [attempt({ usual: 45, cut_off: 700 })],
  };
  assert.equal(
    outlook(state, 120),
    "usually ready within 25 s from now · booting is given up in 9 min 40 s",
  );
  assert.match(outlook(state, 200), /usually ready after 45 s: later than most/);
  assert.equal(outlook({ ...state, state: "ready" }, 120), "");
});
