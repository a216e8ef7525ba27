// The code of a kernel in each page, whose notebook and kernel the test plays.

import assert from "node:assert/strict";
import { test } from "node:test";

import pageLink from "../../../widgets/page_link.js";

function open({ isRestored }) {
  const sent = [];
  let say = () => {};
  const model = {
    widget_manager: {
      context: { ready: Promise.resolve(), model: { cells: { length: 0 } } },
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
