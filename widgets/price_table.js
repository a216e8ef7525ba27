// The price table as a panel of its own, as `%prices` shows it.

import { make, makeRoot, makeStatus, setText } from "./dom.js";
import { makeGrid } from "./grid.js";
import { connect } from "./link.js";

const ROWS = 15;

/** @typedef {import("./types").PriceState} PriceState */

/** @type {import("@anywidget/types").Render<import("./types").Traits<PriceState>>} */
function render({ model, el }) {
  const controller = new AbortController();
  const { signal } = controller;
  const root = makeRoot(model, el, "Prices", signal);
  const title = make("div", { class: "nbprov-title" });
  const status = makeStatus();
  const grid = makeGrid({
    label: "Prices",
    signal,
    rows: ROWS,
    onSelect: (rank) => link.send({ type: "select", rank }),
  });
  const notes = make("div", { class: "nbprov-notes" });
  root.append(title, grid.element, notes, status);
  setText(status, "waiting for the kernel …");

  /** @param {PriceState} state */
  const show = (state) => {
    setText(title, state.title);
    title.hidden = !state.title;
    setText(notes, state.notes.join("\n"));
    notes.hidden = !state.notes.length;
    link.want(state.version);
  };
  const link = connect(model, signal, {
    state: show,
    table(table) {
      setText(status, "");
      grid.setTable(table);
    },
    notice: (text) => setText(status, text),
  });
  show(model.get("state"));
  return () => controller.abort();
}

export default { render };
