// What stands above the price table: search, price limit, facets, groups and columns.

import { make } from "./dom.js";
import { makeChoice, makeFacetMenus, makeMenu } from "./facet_menus.js";
import { facetsOf, throughFacets } from "./facets.js";
import { clearOnEscape } from "./filter_tools.js";
import { groupedRows } from "./row_order.js";
import { byPrice, searchTest } from "./search_words.js";
import { columnOf, drawnColumns, whyOff, wordOf } from "./table.js";

/** @typedef {import("./types").Table} Table */

// A table of at most this many rows is seen at a glance and needs no tools.
const FEW = 8;

/**
 * @param {AbortSignal} signal
 * @param {(hidden: ReadonlySet<string>) => void} onColumns called when other columns are chosen
 * @returns {import("./types").GridTools}
 */
export function makePriceTools(signal, onColumns) {
  let changed = () => {};
  const search = make("input", {
    type: "search",
    class: "nbprov-input nbprov-search",
    placeholder: "search: h100 europe, germany 80gb …",
    "aria-label": "Show only rows that match these words",
    spellcheck: "false",
  });
  const most = make("input", {
    type: "number",
    class: "nbprov-input nbprov-most",
    min: 0,
    step: "any",
    placeholder: "any",
    "aria-label": "Highest price in dollars per hour",
  });
  const group = make(
    "select",
    { class: "nbprov-input", "aria-label": "Group the rows" },
    make("option", { value: "" }, "no groups"),
    make("option", { value: "gpu" }, "group by GPU"),
    make("option", { value: "cloud" }, "group by cloud"),
  );
  const menus = makeFacetMenus(signal, () => changed());
  /** @type {Set<string>} */
  const hidden = new Set();
  /** @type {Set<string>} */
  const open = new Set();
  /** @type {Table | undefined} */
  let shown;
  /** @type {Table["columns"]} */
  let all = [];
  /** @type {import("./types").Facet[]} */
  let facets = [];
  const columns = makeMenu("columns", signal, (menu) =>
    menu.replaceChildren(
      ...all.map(
        (column) =>
          makeChoice(column.label, "", !hidden.has(column.key), (isOn) => {
            if (isOn) hidden.delete(column.key);
            else hidden.add(column.key);
            onColumns(hidden);
          }).element,
      ),
    ),
  );
  const clear = make("button", { type: "button", class: "nbprov-button" }, "Clear");
  const line = make(
    "div",
    { class: "nbprov-tools" },
    search,
    make("label", {}, "at most $", most, "/h"),
    menus.element,
    group,
    columns.element,
    clear,
  );
  const element = make("div", { role: "search", class: "nbprov-price-tools" }, line, menus.chips);
  clear.addEventListener(
    "click",
    () => {
      search.value = most.value = group.value = "";
      menus.clear();
      changed();
      search.focus();
    },
    { signal },
  );

  /**
   * Return the group of each row. Rows of clouds that are not set up are folded into one line a
   * cloud, unless there are no others.
   * @param {Table} table
   * @param {Uint32Array} rows
   */
  function groupOf(table, rows) {
    const key = columnOf(table, group.value);
    const cloud = columnOf(table, "cloud");
    const isFolded = rows.some((row) => !whyOff(table, row));
    return (/** @type {number} */ row) => {
      const why = isFolded && whyOff(table, row);
      if (why) return `${wordOf(cloud, row)} is not set up (${why})`;
      if (!key) return "";
      const word = wordOf(key, row);
      return (group.value === "gpu" ? word.split(":")[0] : word) || "no GPU";
    };
  }

  return {
    element,
    show(table) {
      all = drawnColumns(table);
      const isKnown = shown?.sent === table.sent && shown?.filled === table.filled;
      if (!isKnown || shown?.renewals !== table.renewals) {
        facets = facetsOf(table);
        menus.setFacets(facets);
      }
      shown = { ...table };
      element.hidden = table.rows <= FEW;
      group.hidden = !columnOf(table, "cloud");
    },
    layout(table, order) {
      const limit = most.valueAsNumber;
      const cheap = Number.isNaN(limit) ? null : byPrice(columnOf(table, "hourly"), limit);
      const found = searchTest(table, search.value);
      const searched =
        cheap || search.value.trim()
          ? order.filter((row) => (!cheap || cheap(row)) && found(row))
          : order;
      const { rows, counts } = throughFacets(facets, menus.chosen, searched);
      menus.setCounts(counts);
      clear.hidden = !(search.value || most.value || group.value || menus.chosen.size);
      return groupedRows(table, rows, groupOf(table, rows), open);
    },
    toggleGroup(name) {
      if (!open.delete(name)) open.add(name);
    },
    onChange(given) {
      changed = given;
      clearOnEscape(line, signal, changed);
      for (const input of [search, most, group])
        input.addEventListener("input", changed, { signal });
    },
  };
}
