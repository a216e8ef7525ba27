// Choosing among prices: words, facets, groups, and what is made of the rows that were chosen.

import assert from "node:assert/strict";
import test from "node:test";

import { facetsOf, throughFacets } from "../../../widgets/facets.js";
import { cellOfAnswers } from "../../../widgets/form_cell.js";
import { groupedRows, sortedRows } from "../../../widgets/row_order.js";
import { cellOf, linesOf } from "../../../widgets/row_texts.js";
import { searchTest } from "../../../widgets/search_words.js";
import { columnOf, decodeTable, sameMachines, whyOff, wordOf } from "../../../widgets/table.js";

// gpu, $/h, market, cloud, region, zone, type, GPU GiB, off, country, continent
const ROWS = [
  ["H100:8", 24, "on-demand", "gcp", "europe-west4", "europe-west4-b", "a3-high", 80, "", "NL", "eu"],
  ["H100:1", 2.5, "on-demand", "runpod", "DE", "EU-DE-1", "1x_H100", 80, "", "DE", "eu"],
  ["A10:1", 0.5, "spot", "aws", "us-east-1", "use1-az1", "g5.xlarge", 24, "no login", "US", "na"],
  ["A100:1", 1.1, "spot", "aws", "eu-central-1", "euc1-az1", "p4d", 40, "no login", "DE", "eu"],
  ["A100-80GB:4", 6, "on-demand", "gcp", "us-central1", "us-central1-a", "a2-ultra", 80, "", "US", "na"],
  ["", 0.1, "on-demand", "gcp", "europe-west3", "europe-west3-a", "n2", NaN, "", "DE", "eu"],
];
const COLUMNS = [
  ["gpu", "text"],
  ["hourly", "money"],
  ["market", "text"],
  ["cloud", "text"],
  ["region", "text"],
  ["zone", "text"],
  ["type", "text"],
  ["gpu_memory", "number"],
  ["off", "text", true],
  ["country", "text", true],
  ["continent", "text", true],
  ["gpu_hourly", "money"],
];

/** The rows as the kernel sends them. */
function table(rows = ROWS) {
  const buffers = [];
  const columns = COLUMNS.map(([key, kind, hidden], i) => {
    const cells = rows.map((row) => row[i] ?? row[1] / (Number(row[0].split(":")[1]) || NaN));
    const head = { key, label: key, kind, hidden };
    if (kind !== "text") {
      const scale = kind === "money" ? 1e6 : 1;
      buffers.push(Float64Array.from(cells, (v) => v * scale).buffer);
      return { ...head, dtype: "f8" };
    }
    const words = [...new Set(cells)];
    buffers.push(Uint8Array.from(cells, (w) => words.indexOf(w)).buffer);
    return { ...head, dtype: "u1", words };
  });
  const head = { rows: rows.length, total: rows.length, noun: "offer", tail: 0, now: 0, columns };
  return decodeTable(head, buffers);
}
const TABLE = table();
const ALL = sortedRows(TABLE, []);
const found = (text) => [...ALL.filter(searchTest(TABLE, text))];

test("a word means the GPU, and not every name that holds it", () => {
  assert.deepEqual(found("a10"), [2]);
  assert.deepEqual(found("A100"), [3, 4]);
  assert.deepEqual(found("h1"), [0, 1], "the beginning of a word, while it is being typed");
  assert.deepEqual(found("8x h100"), [0]);
});

test("places are found by continent, country and code, and a code is no part of a word", () => {
  assert.deepEqual(found("h100 europe"), [0, 1]);
  assert.deepEqual(found("europe"), [0, 1, 3, 5]);
  assert.deepEqual(found("germany"), [1, 3, 5]);
  assert.deepEqual(found("DE"), [1, 3, 5], "and not on-demand");
  assert.deepEqual(found("north america"), [2, 4]);
  assert.deepEqual(found("united states"), [2, 4]);
  assert.deepEqual(found("usa gcp"), [4]);
});

test("sizes, prices and markets are values", () => {
  assert.deepEqual(found("80GB"), [0, 1, 4]);
  assert.deepEqual(found("40gb"), [3]);
  assert.deepEqual(found("<2"), [2, 3, 5]);
  assert.deepEqual(found("<=$2.5 h100"), [1]);
  assert.deepEqual(found("spot"), [2, 3]);
  assert.deepEqual(found("ondemand us-central1"), [4]);
});

test("words that nothing matches leave nothing, and no words leave all", () => {
  assert.deepEqual(found("h100 mars"), []);
  assert.deepEqual(found("  "), [0, 1, 2, 3, 4, 5]);
});

const FACETS = facetsOf(TABLE);
const facet = (key) => FACETS.find((f) => f.key === key);
const numbers = (key, chosen = new Map()) => {
  const { counts } = throughFacets(FACETS, chosen, ALL);
  return Object.fromEntries(facet(key).choices.map((name, i) => [name, counts.get(key)[i]]));
};

test("a facet lists its choices with how many rows each has", () => {
  assert.deepEqual(numbers("gpu"), { H100: 2, A10: 1, A100: 1, "A100-80GB": 1 });
  assert.deepEqual(numbers("country"), { Netherlands: 1, Germany: 3, "United States": 2 });
  assert.deepEqual(numbers("memory"), { "80 GiB": 3, "24 GiB": 1, "40 GiB": 1 });
  assert.deepEqual(numbers("mine"), { "set up": 4, "not set up": 2 });
});

test("choices of one facet add up, those of several narrow down", () => {
  const chosen = new Map([["gpu", new Set(["H100", "A100"])]]);
  assert.deepEqual([...throughFacets(FACETS, chosen, ALL).rows], [0, 1, 3]);
  assert.equal(numbers("gpu", chosen)["A10"], 1, "what it would add");
  assert.deepEqual(numbers("country", chosen), { Netherlands: 1, Germany: 2, "United States": 0 });
  chosen.set("country", new Set(["Germany"]));
  assert.deepEqual([...throughFacets(FACETS, chosen, ALL).rows], [1, 3]);
  assert.deepEqual(numbers("country", chosen), { Netherlands: 1, Germany: 2, "United States": 0 });
});

test("the counts of every choice are those that choosing it gives", () => {
  for (const one of FACETS)
    for (const name of one.choices) {
      const chosen = new Map([[one.key, new Set([name])]]);
      assert.equal(throughFacets(FACETS, chosen, ALL).rows.length, numbers(one.key)[name]);
    }
});

test("groups are ordered by their cheapest GPU, and hide their rows until they are open", () => {
  const cloud = columnOf(TABLE, "cloud");
  const by = (row) => wordOf(cloud, row);
  const closed = groupedRows(TABLE, ALL, by, new Set());
  assert.deepEqual([...closed.entries], [-1, -2, -3]);
  assert.deepEqual(
    closed.groups.map((g) => [g.name, g.count, g.least / 1e6, g.row]),
    [
      ["aws", 2, 0.5, 2],
      ["gcp", 3, 1.5, 4],
      ["runpod", 1, 2.5, 1],
    ],
  );
  assert.deepEqual([...closed.matched], [...ALL]);
  const open = groupedRows(TABLE, ALL, by, new Set(["aws"]));
  assert.deepEqual([...open.entries], [-1, 2, 3, -2, -3]);
});

test("machines without a GPU are the last group, however cheap they are", () => {
  const gpu = columnOf(TABLE, "gpu");
  const { groups } = groupedRows(TABLE, ALL, (row) => wordOf(gpu, row) || "no GPU", new Set());
  assert.deepEqual(groups.map((g) => [g.name, g.hasGpu]).at(-1), ["no GPU", false]);
  assert.equal(groups[0].name, "A10:1");
});

test("rows of no group stand before the groups", () => {
  const { entries } = groupedRows(TABLE, ALL, (row) => whyOff(TABLE, row), new Set());
  assert.deepEqual([...entries], [0, 1, 4, 5, -1]);
});

test("one row is a cell with its fields, several are alternatives", () => {
  assert.equal(
    cellOf(TABLE, [3]),
    [
      "%%provision",
      "resources:",
      "  cloud: aws",
      "  region: eu-central-1",
      "  zone: euc1-az1",
      "  instance_type: p4d",
      "  accelerators: A100:1",
      "  use_spot: true",
      "",
    ].join("\n"),
  );
  assert.equal(
    cellOf(TABLE, [1, 5]),
    [
      "%%provision",
      "resources:",
      "  any_of:",
      '    - {cloud: runpod, region: DE, zone: EU-DE-1, instance_type: "1x_H100", accelerators: H100:1}',
      "    - {cloud: gcp, region: europe-west3, zone: europe-west3-a, instance_type: n2}",
      "",
    ].join("\n"),
  );
});

test("copied lines hold figures and no units, and quote what needs it", () => {
  const [head, line] = linesOf(TABLE, [1], "\t").split("\r\n");
  assert.deepEqual(head.split("\t").slice(0, 3), ["gpu", "hourly", "$/month"]);
  assert.deepEqual(line.split("\t").slice(0, 4), ["H100:1", "2.5", "1825", "on-demand"]);
  const odd = structuredClone(TABLE);
  columnOf(odd, "type").words[0] = 'a "big", one';
  assert.match(linesOf(odd, [0], ","), /,"a ""big"", one",/);
  assert.match(linesOf(odd, [5], ","), /^,0.1,/m);
});

test("a form's answers are a cell, without what was left open", () => {
  const open = {
    name: "",
    gpu: "",
    count: "",
    cpus: "4",
    places: [],
    market: "",
    most: "",
    idle: "",
  };
  assert.equal(cellOfAnswers(open), "%%provision\nresources:\n  cpus: 4+\n");
  const full = { ...open, name: "dev", gpu: "H100", count: "8", places: ["eu", "na"] };
  assert.equal(
    cellOfAnswers({ ...full, market: "prefer", most: "30", idle: "45" }),
    [
      "%%provision dev",
      "resources:",
      "  accelerators: H100:8",
      "  region: [eu, na]",
      "  use_spot: prefer",
      "  max_hourly_cost: 30",
      "  autostop: 45",
      "",
    ].join("\n"),
  );
  assert.match(cellOfAnswers({ ...open, name: "a; b" }), /^%%provision\n/);
});

test("rows that were chosen are the same machines in a plan of another order", () => {
  const newer = table([ROWS[4], ROWS[2], ROWS[0], ROWS[2]]);
  assert.deepEqual(sameMachines(TABLE, [2, 0], newer), [1, 2]);
  assert.deepEqual(sameMachines(TABLE, [1], newer), [], "it has gone");
  assert.deepEqual(sameMachines(TABLE, [], newer), []);
});
