// The connection of a view to the kernel, whose side the test plays.

import assert from "node:assert/strict";
import test from "node:test";

import { connect } from "../../../widgets/link.js";

globalThis.document ??= Object.assign(new EventTarget(), { visibilityState: "visible" });
globalThis.window ??= new EventTarget();

/** What tells a view whether it is in the part of the page that a person sees. */
let tellSight;
globalThis.IntersectionObserver = class {
  constructor(told) {
    tellSight = (isIntersecting) => told([{ isIntersecting }]);
  }
  observe() {}
  disconnect() {
    tellSight = undefined;
  }
};

/** A model as the widget manager provides it, together with the kernel's side of it. */
function makeModel(state) {
  const handlers = new Map();
  return {
    sent: [],
    get: () => state,
    send(message) {
      this.sent.push(message);
    },
    on: (name, handler) => handlers.set(name, handler),
    off: (name, handler) => handlers.get(name) === handler && handlers.delete(name),
    change(given) {
      state = given;
      handlers.get("change:state")?.();
    },
    say: (message, buffers) => handlers.get("msg:custom")?.(message, buffers),
    handlers,
  };
}

function open(t, { isLive, isSeen = true, state = { n: 0 } } = {}) {
  const controller = new AbortController();
  t.after(() => controller.abort());
  const model = makeModel(state);
  const seen = { states: [], tables: [], notices: [], times: 0 };
  const link = connect(model, controller.signal, {
    root: {},
    state: (state, age) => seen.states.push([state, age]),
    table: (table, version) => seen.tables.push([table.rows, version]),
    notice: (text) => seen.notices.push(text),
    seen: () => (seen.times += 1),
    ...(isLive ? { isLive } : {}),
  });
  if (isSeen) tellSight(true);
  return { controller, model, link, seen };
}

test("the table is requested once per version", (t) => {
  const { model, link } = open(t);
  link.want(1);
  link.want(1);
  link.want(2);
  assert.deepEqual(
    model.sent.map((m) => [m.type, m.version]),
    [
      ["ready", 1],
      ["ready", 2],
    ],
  );
});

test("a message for another view is ignored", (t) => {
  const { model, link, seen } = open(t);
  link.want(1);
  const view = model.sent[0].view;
  const table = { rows: 0, total: 0, noun: "offer", columns: [] };
  model.say({ type: "table", view: "another", version: 1, table }, []);
  assert.deepEqual(seen.tables, []);
  model.say({ type: "table", view, version: 1, table }, []);
  model.say({ type: "notice", view: "", text: "no" });
  assert.deepEqual([seen.tables, seen.notices], [[[0, 1]], ["no"]]);
});

test("the version that is drawn is that of the last table that came", (t) => {
  const { model, link } = open(t);
  const table = { rows: 0, total: 0, noun: "offer", columns: [] };
  model.say({ type: "table", view: "", version: 1, table }, []);
  link.want(2);
  assert.equal(link.drawn(), 1, "the new one is on its way");
  model.say({ type: "table", view: "", version: 2, table }, []);
  assert.equal(link.drawn(), 2);
});

test("a live view asks for the state at once and on focus, one question at a time", (t) => {
  const { model, seen } = open(t, { isLive: () => true });
  assert.deepEqual(
    model.sent.map((m) => m.type),
    ["sync"],
  );
  window.dispatchEvent(new Event("focus"));
  assert.equal(model.sent.length, 1);
  model.say({ type: "state", view: model.sent[0].view, state: { n: 1 }, age: 7 });
  window.dispatchEvent(new Event("focus"));
  assert.equal(model.sent.length, 2);
  model.change({ n: 2 });
  assert.deepEqual(seen.states, [
    [{ n: 1 }, 7],
    [{ n: 2 }, 0],
  ]);
});

test("a state that is cut short is not shown: the whole one comes as a message", (t) => {
  const { model, seen } = open(t);
  model.change({ n: 1, is_cut: true });
  assert.deepEqual(seen.states, []);
  model.say({ type: "state", view: "", state: { n: 100 }, age: 0 });
  model.change({ n: 2 });
  assert.deepEqual(seen.states, [
    [{ n: 100 }, 0],
    [{ n: 2 }, 0],
  ]);
});

test("a state that is cut short is asked for once it is seen, also where nothing is live", (t) => {
  t.mock.timers.enable({ apis: ["setInterval", "Date"] });
  const state = { n: 1, is_cut: true };
  const { model, seen } = open(t, { isLive: () => false, isSeen: false, state });
  assert.deepEqual(model.sent, [], "nobody sees it yet");
  tellSight(true);
  assert.deepEqual(
    model.sent.map((m) => m.type),
    ["sync"],
  );
  model.say({ type: "state", view: model.sent[0].view, state: { n: 100 }, age: 0 });
  assert.deepEqual(seen.states, [[{ n: 100 }, 0]]);
  t.mock.timers.tick(60_000);
  assert.equal(model.sent.length, 1, "it is no poll");
  window.dispatchEvent(new Event("focus"));
  assert.equal(model.sent.length, 2, "a message may have been lost");
});

test("silence of a live view is broken by a question; a finished one is left alone", (t) => {
  t.mock.timers.enable({ apis: ["setInterval", "Date"] });
  let isLive = true;
  const { model, seen } = open(t, { isLive: () => isLive });
  model.say({ type: "state", view: "", state: { n: 1 }, age: 0 });
  t.mock.timers.tick(11_000);
  assert.equal(model.sent.length, 2);
  isLive = false;
  model.change({ n: 2 });
  t.mock.timers.tick(60_000);
  assert.equal(model.sent.length, 2);
  assert.equal(seen.states.length, 2);
});

/** Show or hide the page, as another tab of the browser does. */
function turnPage(visibilityState) {
  document.visibilityState = visibilityState;
  document.dispatchEvent(new Event("visibilitychange"));
}

test("a view in a page that nobody sees asks nothing, and catches up once it is seen", (t) => {
  t.mock.timers.enable({ apis: ["setInterval", "Date"] });
  t.after(() => turnPage("visible"));
  turnPage("hidden");
  const { model, link, seen } = open(t, { isLive: () => true });
  t.mock.timers.tick(60_000);
  window.dispatchEvent(new Event("focus"));
  assert.deepEqual([model.sent, link.isSeen(), seen.times], [[], false, 0]);
  turnPage("visible");
  assert.deepEqual([model.sent.length, link.isSeen(), seen.times], [1, true, 1]);
  model.say({ type: "state", view: "", state: { n: 1 }, age: 0 });
  turnPage("hidden");
  t.mock.timers.tick(60_000);
  assert.equal(model.sent.length, 1);
});

test("a panel that is scrolled away, or in another tab, asks nothing either", (t) => {
  t.mock.timers.enable({ apis: ["setInterval", "Date"] });
  const { model, link } = open(t, { isLive: () => true, isSeen: false });
  t.mock.timers.tick(60_000);
  assert.deepEqual([model.sent, link.isSeen()], [[], false]);
  tellSight(true);
  assert.equal(model.sent.length, 1);
  model.say({ type: "state", view: "", state: { n: 1 }, age: 0 });
  t.mock.timers.tick(11_000);
  assert.equal(model.sent.length, 2, "what is seen asks after silence");
  model.say({ type: "state", view: "", state: { n: 2 }, age: 0 });
  tellSight(false);
  t.mock.timers.tick(60_000);
  assert.equal(model.sent.length, 2);
});

test("a view that is closed hears and asks nothing more", (t) => {
  const { controller, model, seen } = open(t, { isLive: () => true });
  controller.abort();
  window.dispatchEvent(new Event("focus"));
  assert.equal(model.handlers.size, 0);
  assert.equal(model.sent.length, 1);
  assert.equal(seen.states.length, 0);
});

test("once the kernel is gone nothing is asked any more, and a press is answered", (t) => {
  t.mock.timers.enable({ apis: ["setInterval", "Date"] });
  const { model, link, seen } = open(t, { isLive: () => true });
  let tries = 0;
  model.send = () => {
    tries += 1;
    throw new Error("Cannot send");
  };
  model.change({ n: 1 });
  for (let n = 0; n < 12; n += 1) t.mock.timers.tick(5_000);
  assert.equal(tries, 1);
  assert.deepEqual(seen.notices, []);
  link.send({ type: "launch" });
  assert.equal(seen.notices.length, 1);
});
