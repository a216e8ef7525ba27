// What was spent of a budget.

import assert from "node:assert/strict";
import { test } from "node:test";

import { percentSpent } from "../../../widgets/budgets.js";

test("a budget is not said to be spent before it is", () => {
  assert.equal(percentSpent(4_999_999, 5e6), 99);
  assert.equal(percentSpent(5e6, 5e6), 100);
});
