// The guards of a cluster, counted down.

import assert from "node:assert/strict";
import { test } from "node:test";

import { guardLines } from "../../../widgets/guard_clocks.js";

test("a guard says the time left to its instant, or why that does not run", () => {
  const clocks = [
    { words: "down after 1 h idle", due: 4000, note: "" },
    { words: "down after 2 h", due: 900, note: "" },
    { words: "down at $5.00", due: 8500, note: "at this rate" },
  ];
  assert.deepEqual(guardLines(clocks, "1 of 2 machines", 1000).split("\n"), [
    "down after 1 h idle: 50 min left",
    "down after 2 h: due now",
    "down at $5.00: 2 h 5 min left at this rate",
    "1 of 2 machines",
  ]);
  assert.match(guardLines(clocks, "", 1001), /^down after 1 h idle: 49 min 59 s left\n/);
  const still = [{ ...clocks[0], due: null }, { ...clocks[0], due: null, note: "in use now" }];
  assert.equal(
    guardLines(still, "", 1000),
    "down after 1 h idle\ndown after 1 h idle: in use now",
  );
});
