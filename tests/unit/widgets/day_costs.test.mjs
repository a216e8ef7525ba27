// What a plot of costs says to those who cannot see it, and how it grows.

import assert from "node:assert/strict";
import { test } from "node:test";

import { grown, words } from "../../../widgets/day_costs.js";
import { costAt, usd } from "../../../widgets/format.js";

const DAYS = {
  days: ["2026-11-24", "2026-11-25", "2026-11-26"],
  clouds: [
    { cloud: "aws", costs: [1e6, 3e6, 0], simulated: false, hourly: 0 },
    { cloud: "gcp", costs: [0, 2e6, 5e5], simulated: false, hourly: 36e5 },
  ],
};

test("a plot says the whole, and its dearest day", () => {
  assert.match(words(DAYS), /^\$6\.50 in 3 days, the most on .*25.*: \$5\.00$/);
});

test("today grows as the total beside it does, and no other day", () => {
  const later = grown(DAYS, 1000, 1090);
  assert.deepEqual(
    later.clouds.map((one) => one.costs),
    [
      [1e6, 3e6, 0],
      [0, 2e6, 59e4],
    ],
  );
  assert.equal(usd(later.clouds[1].costs[2]), usd(costAt(5e5, 36e5, 1000, 1090)));
  assert.match(words(later), /^\$6\.59 in 3 days/);
  assert.match(words(grown(DAYS, 1000, 1000 + 2 * 3600)), /the most on .*26.*: \$7\.70$/);
  assert.deepEqual(DAYS.clouds[1].costs, [0, 2e6, 5e5], "what the kernel sent stays as it is");
});
