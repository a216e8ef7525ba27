// The price table as a panel of its own, as `%prices` shows it.

import { make, makeRoot, makeStatus, setText } from "./dom.js";
import { makeGrid } from "./grid.js";
import { connect } from "./link.js";
import { makePricePicks } from "./price_picks.js";
import { makePriceTools } from "./price_tools.js";
import { columnOf, drawnColumns } from "./table.js";

const ROWS = 15;
// How often the kernel hears that somebody sees the table; it asks clouds once a minute at most.
const LOOK_MS = 30_000;

/** @typedef {import("./types").PriceState} PriceState */
/** @typedef {import("./types").Table} Table */

/** @type {import("@anywidget/types").Render<import("./types").Traits<PriceState>>} */
function render({ model, el }) {
  const controller = new AbortController();
  const { signal } = controller;
  const root = makeRoot(model, el, "Prices", signal);
  const title = make("div", { class: "nbprov-title" });
  const status = makeStatus();
  /** The table with all its columns. @type {Table | undefined} */
  let table;
  /** The same with the columns that are wanted. @type {Table | undefined} */
  let shown;
  /** @type {import("./types").TableColumn | undefined} */
  let ranks;
  /** @type {ReadonlySet<string>} */
  let hidden = new Set();
  const say = (/** @type {string} */ text) => setText(status, text);
  const tools = makePriceTools(signal, (given) => {
    hidden = given;
    chooseColumns();
    grid.rebuild();
  });
  const grid = makeGrid({
    label: "Prices",
    signal,
    rows: ROWS,
    tools,
    isMultiple: true,
    onPick: (rows) => {
      picks.setPicked(rows);
      const [row] = rows;
      if (rows.length === 1 && row !== undefined && ranks) link.send({ type: "select", rank: ranks.values[row] ?? row });
    },
  });
  const picks = makePricePicks({
    signal,
    table: () => shown,
    matched: grid.matched,
    nowMs: () => Date.now(),
    say,
    onFrame: (rows) => link.sendNumbers({ type: "frame" }, rows.map((row) => ranks?.values[row] ?? row)),
  });
  const notes = make("div", { class: "nbprov-notes" });
  root.append(title, grid.element, picks.element, notes, status);
  picks.copyFrom(grid.element);
  say("waiting for the kernel …");

  function chooseColumns() {
    if (!table || !shown) return;
    shown.columns = table.columns.filter((column) => !hidden.has(column.key));
  }

  /** @param {PriceState} state */
  const show = (state) => {
    setText(title, state.title);
    title.hidden = !state.title;
    setText(notes, state.notes.join("\n"));
    notes.hidden = !state.notes.length;
    link.want(state.version);
  };
  const link = connect(model, signal, {
    root,
    state: show,
    seen: () => look(),
    table(given) {
      say("");
      table = { ...given, columns: [...given.columns] };
      shown = given;
      ranks = columnOf(given, "rank");
      hidden = new Set();
      grid.setTable(shown);
      picks.reset();
      look();
    },
    rows() {
      grid.rebuild();
    },
    column() {
      if (!table || !shown) return;
      const columns = drawnColumns(shown);
      const isNew = columns.length !== table.columns.length;
      table.columns = columns;
      chooseColumns();
      if (isNew) grid.rebuild();
      else grid.renew();
    },
    notice: say,
  });
  const look = () => {
    if (link.isSeen() && table && model.get("state").asks_stock) link.look();
  };
  const looking = setInterval(look, LOOK_MS);
  signal.addEventListener("abort", () => clearInterval(looking));
  show(model.get("state"));
  return () => controller.abort();
}

export default { render };
