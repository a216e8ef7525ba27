// Where the lines that an editor has drawn lie in its text.

import assert from "node:assert/strict";
import { test } from "node:test";

import { placesOf } from "../../../widgets/drawn_lines.js";

const TEXT = ["top", "  - a", "  - b", "  - a", "  - b", "  - a", "end"];
const run = (above, ...lines) => ({ lines, above });

test("lines that stand once are found wherever the editor is", () => {
  assert.deepEqual(placesOf(TEXT, [run(0, ...TEXT)]), [0]);
  assert.deepEqual(placesOf(TEXT, [run(40, "top"), run(0, "  - a", "end")]), [0, 5]);
});

test("of lines that stand several times those are meant that lie so far below the top", () => {
  assert.deepEqual(placesOf(TEXT, [run(1, "  - a")]), [1]);
  assert.deepEqual(placesOf(TEXT, [run(2.6, "  - a", "  - b")]), [3]);
  assert.deepEqual(placesOf(TEXT, [run(1.2, "  - a"), run(4.9, "  - a")]), [1, 5]);
});

test("another text has no such lines, nor the same ones in another order", () => {
  assert.equal(placesOf(TEXT, [run(0, "top", "  - b")]), undefined);
  assert.equal(placesOf(TEXT, [run(5, "end"), run(0, "top")]), undefined);
  assert.equal(placesOf(["top"], [run(0, "top"), run(1, "top")]), undefined);
});
