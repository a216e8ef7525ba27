// The code of a kernel in each page, whose notebook and kernel the test plays.

import assert from "node:assert/strict";
import { test } from "node:test";

import pageLink from "../../../widgets/page_link.js";

function open({ isRestored, cells = { length: 0 } }) {
  const sent = [];
  let say = () => {};
  const model = {
    widget_manager: {
      context: { ready: Promise.resolve(), model: { cells } },
      restored: { connect: () => {}, disconnect: () => {} },
      restoredStatus: isRestored,
    },
    on: (name, handler) => (say = handler),
    off: () => {},
    send: (message) => sent.push(message),
  };
  pageLink.initialize({ model });
  return { sent, say };
}

const settled = () => new Promise((resolve) => setImmediate(resolve));

test("a page tells its forms again once the kernel listens", async () => {
  const { sent, say } = open({ isRestored: true });
  await settled();
  say({ type: "listening" });
  await settled();
  const told = { type: "forms", forms: [] };
  assert.deepEqual(sent, [told, told]);
});

test("a page whose widgets are not there yet waits for them", async () => {
  const { sent, say } = open({ isRestored: false });
  say({ type: "listening" });
  await settled();
  assert.deepEqual(sent, []);
});

function withCell(html) {
  const outputs = html.map((one) => ({ data: { "text/html": one } }));
  const list = {
    get length() {
      return outputs.length;
    },
    get: (at) => outputs[at],
    clear: () => outputs.splice(0),
    add: (one) => outputs.push(one),
  };
  const cell = { id: "c1", outputs: list, sharedModel: { changed: { connect() {}, disconnect() {} } } };
  return { outputs, cells: { length: 1, get: () => cell } };
}

const BADGE = '<div data-nbprov-cell="t-1">dev</div>';
const MARK = { cell: "c1", mark: "t-1" };

test("a page tells whether it has the badge of a cell that ended, and nothing of other cells", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  for (const [html, type] of [
    [[BADGE], "cell-seen"],
    [[], "cell-missing"],
  ]) {
    const { sent, say } = open({ isRestored: false, cells: withCell(html).cells });
    say({ type: "cells", cells: [MARK, { cell: "gone", mark: "t-2" }] });
    t.mock.timers.tick(2000);
    assert.deepEqual(sent, [{ type, ...MARK }]);
  }
});

test("outputs that came while no page was open are shown, unless the badge is there", () => {
  const outputs = [{ text: "over" }, { data: { "text/html": BADGE } }];
  const there = withCell(["<b>begun</b>"]);
  const { say } = open({ isRestored: false, cells: there.cells });
  say({ type: "cell", ...MARK, outputs });
  assert.deepEqual(there.outputs, outputs);
  say({ type: "cell", ...MARK, outputs: [] });
  assert.deepEqual(there.outputs, outputs);
});
