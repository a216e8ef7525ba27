// The line of a meter.

import assert from "node:assert/strict";
import { test } from "node:test";

import { linePoints } from "../../../widgets/machine_load.js";

test("a line ends at the right, and a short history begins further to the right", () => {
  assert.equal(linePoints([100]), "52.0,1.0");
  assert.equal(linePoints([0, 50]), "47.7,13.0 52.0,7.0");
});

test("a line stays within its box, and shows no more than a minute", () => {
  const drawn = linePoints([...Array(20).fill(-5), 300]).split(" ");
  assert.equal(drawn.length, 13);
  assert.equal(drawn[0], "0.0,13.0");
  assert.equal(drawn.at(-1), "52.0,1.0");
});
