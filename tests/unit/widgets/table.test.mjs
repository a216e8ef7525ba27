// Decoding, sorting and filtering of the price table.

import assert from "node:assert/strict";
import test from "node:test";

import { facetsOf } from "../../../widgets/facets.js";
import { nextSorting, sortedRows } from "../../../widgets/row_order.js";
import { byPrice, searchTest } from "../../../widgets/search_words.js";
import {
  cellHints,
  cellText,
  columnOf,
  columnWidth,
  decodeTable,
  drawnColumns,
  renewColumn,
  takePage,
  whyOff,
} from "../../../widgets/table.js";

const NOW = Date.UTC(2026, 10, 21);
const HEAD = {
  rows: 4,
  total: 4,
  noun: "offer",
  columns: [
    { key: "rank", label: "#", kind: "rank", dtype: "i4" },
    {
      key: "gpu",
      label: "GPU",
      kind: "text",
      dtype: "u2",
      words: ["A100:8", "", "a10:1", "A100:16"],
    },
    { key: "market", label: "market", kind: "text", dtype: "u2", words: ["spot", "on-demand"] },
    { key: "hourly", label: "$/h", kind: "money", dtype: "f8" },
    { key: "vcpus", label: "vCPU", kind: "number", dtype: "f4" },
    {
      key: "as_of",
      label: "age",
      kind: "date",
      dtype: "u2",
      words: ["2026-11-20", "2026-11-01", ""],
    },
  ],
};
const ARRAYS = [
  Int32Array.of(0, 1, 2, 3),
  Uint16Array.of(0, 1, 2, 3),
  Uint16Array.of(0, 1, 1, 0),
  Float64Array.of(2_500_000, 9_500, NaN, 100_000),
  Float32Array.of(96, NaN, 0.333, 8),
  Uint16Array.of(0, 1, 2, 1),
];
const views = () => ARRAYS.map((a) => new DataView(a.buffer));
const table = () => decodeTable(structuredClone(HEAD), views());
const rows = (order) => [...order];
const by = (key, direction = 1) => rows(sortedRows(table(), [{ key, direction }]));
const inOrder = (t) => sortedRows(t, []);
const passing = (text) => rows(inOrder(table()).filter(searchTest(table(), text)));

test("cells read as in the static forms", () => {
  const t = table();
  const cells = (row) => t.columns.map((c) => cellText(c, row, NOW));
  assert.deepEqual(cells(0), ["1", "A100:8", "spot", "$2.50", "96", "1 d"]);
  assert.deepEqual(cells(1), ["2", "–", "on-demand", "$0.0095", "–", "20 d"]);
  assert.deepEqual(cells(2), ["3", "a10:1", "on-demand", "–", "0.333", "–"]);
});

test("the title of an age says of which zone the price's date is", () => {
  const age = columnOf(table(), "as_of");
  assert.equal(cellHints(age, 0, "1 d", NOW).title, "2026-11-20 UTC");
  assert.equal(cellHints(age, 2, "–", NOW).title, "");
});

test("an old price has the tone of a warning, and a stale one that of a fault", () => {
  const age = columnOf(table(), "as_of");
  const tone = (days) => cellHints(age, 0, "", Date.parse("2026-11-20") + days * 86_400_000).tone;
  assert.deepEqual([0, 29, 30, 179, 180].map(tone), ["", "", "warn", "warn", "bad"]);
  assert.equal(cellHints(age, 2, "", NOW).tone, "");
});

test("buffers may lie anywhere in what arrived", () => {
  const padded = ARRAYS.map((a) => {
    const bytes = new Uint8Array(a.byteLength + 7);
    bytes.set(new Uint8Array(a.buffer), 3);
    return new DataView(bytes.buffer, 3, a.byteLength);
  });
  assert.deepEqual(decodeTable(structuredClone(HEAD), padded), table());
  assert.deepEqual(
    decodeTable(
      structuredClone(HEAD),
      ARRAYS.map((a) => a.buffer),
    ),
    table(),
  );
});

test("a column that is missing or too short is refused", () => {
  assert.throws(() => decodeTable(structuredClone(HEAD), views().slice(1)), /values/);
  assert.throws(() => decodeTable(structuredClone(HEAD), []), /column rank has no values/);
});

test("sorting puts unknown values last both ways", () => {
  assert.deepEqual(by("hourly"), [1, 3, 0, 2]);
  assert.deepEqual(by("hourly", -1), [0, 3, 1, 2]);
  assert.deepEqual(by("vcpus"), [2, 3, 0, 1]);
});

test("names sort as people count, whatever their case", () => {
  assert.deepEqual(by("gpu"), [2, 0, 3, 1]);
  assert.deepEqual(by("gpu", -1), [3, 0, 2, 1]);
});

test("ages sort by age, equal ones keep the plan's order", () => {
  assert.deepEqual(by("as_of"), [0, 1, 3, 2]);
  assert.deepEqual(by("as_of", -1), [1, 3, 0, 2]);
});

test("without sorting the plan's order stands, and a header goes up, down, back", () => {
  assert.deepEqual(rows(inOrder(table())), [0, 1, 2, 3]);
  const up = nextSorting([], "gpu");
  const down = nextSorting(up, "gpu");
  assert.deepEqual([up, down], [[{ key: "gpu", direction: 1 }], [{ key: "gpu", direction: -1 }]]);
  assert.deepEqual(nextSorting(down, "gpu"), []);
  assert.deepEqual(nextSorting(down, "hourly"), [{ key: "hourly", direction: 1 }]);
});

test("a further column sorts what the first leaves equal, and can be taken out again", () => {
  const first = nextSorting([], "market");
  const both = nextSorting(first, "hourly", true);
  assert.deepEqual(rows(sortedRows(table(), both)), [1, 2, 3, 0]);
  const turned = nextSorting(both, "hourly", true);
  assert.deepEqual(rows(sortedRows(table(), turned)), [1, 2, 0, 3]);
  assert.deepEqual(nextSorting(turned, "hourly", true), first);
});

test("all words of a filter must be contained somewhere in the row", () => {
  assert.deepEqual(passing("a100"), [0, 3]);
  assert.deepEqual(passing("  A100   spot "), [0, 3]);
  assert.deepEqual(passing("a100 on-demand"), []);
  assert.deepEqual(passing(""), [0, 1, 2, 3]);
});

test("the price limit is inclusive and lets no unknown price pass", () => {
  const upTo = (dollars) =>
    rows(inOrder(table()).filter(byPrice(columnOf(table(), "hourly"), dollars)));
  assert.deepEqual(upTo(2.5), [0, 1, 3]);
  assert.deepEqual(upTo(0.1), [1, 3]);
  assert.deepEqual(upTo(0), []);
});

test("a table arrives in pages", () => {
  const cut = (from, to) => ARRAYS.map((a) => a.slice(from, to).buffer);
  const paged = decodeTable(structuredClone(HEAD), cut(0, 1), 1);
  assert.deepEqual(rows(inOrder(paged)), [0]);
  takePage(paged, 1, 4, cut(1, 4));
  assert.deepEqual(paged, table());
  assert.throws(() => takePage(paged, 1, 4, cut(1, 3)), /2 values for 3 rows/);
});

test("the month is derived from the hour, and is not sent", () => {
  const head = structuredClone(HEAD);
  head.columns.push({ key: "gpu_hourly", label: "$/GPU-h", kind: "money", dtype: "f8" });
  const t = decodeTable(head, [...views(), Float64Array.of(1, 2, 3, 4).buffer]);
  assert.deepEqual(
    t.columns.map((c) => c.key),
    ["rank", "gpu", "market", "hourly", "monthly", "vcpus", "as_of", "gpu_hourly"],
  );
  assert.equal(cellText(columnOf(t, "monthly"), 0, NOW), "$1,825.00");
  assert.equal(cellText(columnOf(t, "monthly"), 2, NOW), "–");
});

test("a million rows are sorted by two columns in the right order", () => {
  const n = 1_000_000;
  const big = {
    filled: n,
    columns: [
      { key: "hourly", kind: "money", words: [], values: Float64Array.from({ length: n }, (_, i) => (i * 7919) % 50_021) },
      { key: "gpu", kind: "text", words: ["b", "a"], values: Uint8Array.from({ length: n }, (_, i) => i % 2) },
    ],
    sent: [],
  };
  const order = sortedRows(big, [
    { key: "gpu", direction: 1 },
    { key: "hourly", direction: -1 },
  ]);
  const [hourly, gpu] = big.columns;
  assert.equal(new Set(order).size, n);
  for (let i = 1; i < n; i++) {
    const [a, b] = [order[i - 1], order[i]];
    const byGpu = gpu.values[b] - gpu.values[a];
    assert.ok(byGpu < 0 || (byGpu === 0 && hourly.values[a] >= hourly.values[b]));
    if (byGpu === 0 && hourly.values[a] === hourly.values[b]) assert.ok(a < b);
  }
});

test("a column is as wide as its longest value, within limits", () => {
  const t = table();
  assert.ok(columnWidth(t.columns[1], NOW) >= "A100:16".length * 0.9);
  const long = { ...t.columns[1], words: ["x".repeat(90)] };
  assert.ok(columnWidth(long, NOW) <= 30);
});

const SAID = NOW / 1000 - 20;
const STOCK = {
  rows: 4,
  total: 3,
  noun: "candidate",
  tail: 1,
  now: NOW / 1000,
  columns: [
    { key: "rank", label: "#", kind: "rank", dtype: "i4" },
    {
      key: "stock",
      label: "stock",
      kind: "stock",
      dtype: "u2",
      words: [`low@${SAID}`, "", `high@${SAID - 60}`, `none@${SAID}`],
    },
    {
      key: "off",
      label: "",
      kind: "text",
      dtype: "u2",
      words: ["", "no credentials"],
      hidden: true,
    },
  ],
};
const stocked = () =>
  decodeTable(
    structuredClone(STOCK),
    [Int32Array.of(0, 1, 2, -1), Uint16Array.of(0, 2, 3, 1), Uint16Array.of(0, 0, 0, 1)].map(
      (a) => a.buffer,
    ),
  );

test("a stock is its level and its age at the moment", () => {
  const t = stocked();
  assert.deepEqual(
    [0, 1, 2, 3].map((row) => cellText(t.columns[1], row, NOW)),
    ["low, 20 s ago", "high, 1 min ago", "none, 20 s ago", ""],
  );
  assert.equal(cellText(t.columns[1], 0, NOW + 3500_000), "low, 58 min ago");
  const width = columnWidth(t.columns[1], NOW);
  assert.equal(columnWidth(t.columns[1], NOW + 3500_000), width, "there is room for older answers");
  assert.ok(width >= 0.9 * "high, 58 min ago".length);
  assert.ok(width <= "high, 58 min ago".length + 1, "and none for levels that nobody told");
});

test("the most stock is first, what is not known last both ways", () => {
  assert.deepEqual([...sortedRows(stocked(), [{ key: "stock", direction: 1 }])], [1, 0, 2, 3]);
  assert.deepEqual([...sortedRows(stocked(), [{ key: "stock", direction: -1 }])], [2, 0, 1, 3]);
});

test("a filter looks at the level and not at its instant", () => {
  const t = stocked();
  const rows = (text) => [...inOrder(t).filter(searchTest(t, text))];
  assert.deepEqual(rows("high"), [1]);
  assert.deepEqual(rows(String(SAID)), []);
});

test("what is not set up is grey, has no rank and stays below when sorted by it", () => {
  const t = stocked();
  assert.deepEqual(
    t.columns.map((c) => c.key),
    ["rank", "stock"],
  );
  assert.deepEqual(
    [0, 1, 2, 3].map((row) => whyOff(t, row)),
    ["", "", "", "no credentials"],
  );
  assert.equal(cellText(t.columns[0], 3, NOW), "–");
  for (const direction of [1, -1])
    assert.equal([...sortedRows(t, [{ key: "rank", direction }])].at(-1), 3);
  assert.equal(whyOff(table(), 0), "");
});

const withoutStock = () => {
  const head = structuredClone(HEAD);
  head.columns.splice(3, 0, {
    key: "stock",
    label: "stock",
    kind: "stock",
    dtype: "u1",
    words: [""],
    hidden: true,
  });
  const arrays = [...ARRAYS];
  arrays.splice(3, 0, Uint8Array.of(0, 0, 0, 0));
  return { head, buffers: arrays.map((a) => new DataView(a.buffer)) };
};
const STOCK_HEAD = { key: "stock", label: "stock", kind: "stock", dtype: "u1" };

test("a column that gets values is drawn in its place, and is left out again without any", () => {
  const { head, buffers } = withoutStock();
  const t = decodeTable(head, buffers);
  const keys = () => drawnColumns(t).map((column) => column.key);
  assert.ok(!keys().includes("stock"));
  const at = NOW / 1000 - 20;
  const words = ["", `high@${at}@--0011223333`];
  renewColumn(t, { ...STOCK_HEAD, words }, [Uint8Array.of(0, 1, 0, 0)]);
  assert.deepEqual(keys(), ["rank", "gpu", "market", "stock", "hourly", "vcpus", "as_of"]);
  assert.equal(t.renewals, 1);
  const column = columnOf(t, "stock");
  assert.equal(cellText(column, 1, NOW), "high, 20 s ago");
  assert.deepEqual(cellHints(column, 1, "high, 20 s ago", 0), {
    bars: "··▁▁▃▃▅▅▇▇▇▇",
    tone: "",
    title: "in stock at 8 of 10 times in the last 24 h",
  });
  assert.deepEqual(cellHints(column, 0, "", 0), { bars: "", tone: "", title: "" });
  const wide = columnWidth(column, NOW);
  renewColumn(t, { ...STOCK_HEAD, words: ["none@5"] }, [Uint8Array.of(0, 0, 0, 0)]);
  assert.equal(cellText(columnOf(t, "stock"), 0, 5000), "none, 0 s ago");
  assert.ok(columnWidth(columnOf(t, "stock"), NOW) < wide, "no room for bars that are not there");
  renewColumn(t, { ...STOCK_HEAD, words: [""], hidden: true }, [Uint8Array.of(0, 0, 0, 0)]);
  assert.ok(!keys().includes("stock"));
  assert.throws(() => renewColumn(t, STOCK_HEAD, [Uint8Array.of(0)]), /1 values for 4 rows/);
});

test("a later page does not undo values that came before it", () => {
  const { head, buffers } = withoutStock();
  const slices = (from, to) =>
    buffers.map((view) => {
      const size = view.byteLength / 4;
      return new DataView(view.buffer.slice(from * size, to * size));
    });
  const t = decodeTable(head, slices(0, 2), 2);
  renewColumn(t, { ...STOCK_HEAD, words: ["", "high@5"] }, [Uint8Array.of(0, 0, 0, 1)]);
  takePage(t, 2, 4, slices(2, 4));
  assert.equal(cellText(columnOf(t, "stock"), 3, 5000), "high, 0 s ago");
  assert.equal(cellText(columnOf(t, "vcpus"), 3, NOW), "8");
});

test("the choice of a level stays while no row has it", () => {
  const { head, buffers } = withoutStock();
  const t = decodeTable(head, buffers);
  const stock = () => facetsOf(t).find((facet) => facet.key === "stock");
  assert.equal(stock(), undefined);
  renewColumn(t, { ...STOCK_HEAD, words: ["", "none@5"] }, [Uint8Array.of(0, 1, 1, 1)]);
  assert.deepEqual(stock().choices, [
    "stock: high",
    "stock: medium",
    "stock: low",
    "stock: none",
  ]);
  assert.deepEqual([0, 1].map(stock().codeOf), [-1, 3]);
});
