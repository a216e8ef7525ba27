// The price table on its own: `%prices`.

import { make, makeRoot, makeStatus, setText } from "./dom.js";
import { makeGrid } from "./grid.js";
import { connect } from "./link.js";

const ROWS = 15;

/** @type {import("@anywidget/types").Render<import("./types").Traits<import("./types").PriceState>>} */
function render({ model, el }) {
  const controller = new AbortController();
  const { signal } = controller;
  const root = makeRoot(model, el, "Prices", signal);
  const title = make("div", { class: "nbprov-title" });
  const status = makeStatus();
  const grid = makeGrid({ label: "Prices", signal, rows: ROWS, onSelect: (rank) => link.send({ type: "select", rank }) });
  root.append(title, grid.element, status);
  setText(status, "waiting for the kernel …");

  const link = connect(model, signal, {
    state(state) {
      setText(title, state.title);
      title.hidden = !state.title;
      link.want(state.version);
    },
    table(table) {
      setText(status, "");
      grid.setTable(table);
    },
    notice: (text) => setText(status, text),
  });
  const state = model.get("state");
  setText(title, state.title);
  title.hidden = !state.title;
  link.want(state.version);
  return () => controller.abort();
}

export default { render };
