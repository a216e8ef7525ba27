// The ages of answers.

import assert from "node:assert/strict";
import { test } from "node:test";

import { minutesAgo } from "../../../widgets/market_rows.js";

test("an age is in whole minutes, as in the static form", () => {
  assert.deepEqual([59, 60, 3719, 7325].map(minutesAgo), [
    "less than a minute ago",
    "1 min ago",
    "1 h 1 min ago",
    "2 h 2 min ago",
  ]);
});
