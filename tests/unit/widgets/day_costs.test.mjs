// What a plot of costs says to those who cannot see it.

import assert from "node:assert/strict";
import { test } from "node:test";

import { words } from "../../../widgets/day_costs.js";

test("a plot says the whole, and its dearest day", () => {
  const days = ["2026-11-24", "2026-11-25", "2026-11-26"];
  const clouds = [
    { cloud: "aws", costs: [1e6, 3e6, 0], simulated: false },
    { cloud: "gcp", costs: [0, 2e6, 5e5], simulated: false },
  ];
  const told = words({ days, clouds });
  assert.match(told, /^\$6\.50 in 3 days, the most on .*25.*: \$5\.00$/);
});
