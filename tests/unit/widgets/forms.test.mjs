// The static forms in the notebook's model.

import assert from "node:assert/strict";
import { test } from "node:test";

import { findForms, placeForm } from "../../../widgets/forms.js";

const VIEW = "application/vnd.jupyter.widget-view+json";

const form = (anchor, subject, words) =>
  `<div data-nbprov="${anchor}">\n<i data-nbprov-subject="${subject}" hidden></i>${words}</div>`;

function notebook(...cells) {
  const written = [];
  const models = cells.map((outputs, cell) => ({
    outputs: outputs && {
      length: outputs.length,
      get: (i) => ({ data: outputs[i] }),
      set: (i, value) => {
        written.push([cell, i, value.data]);
        outputs[i] = value.data;
      },
    },
  }));
  const cellList = { length: models.length, get: (i) => models[i] };
  return { context: { model: { cells: cellList } }, written };
}

test("forms are found with their subjects; other outputs and text cells are not", () => {
  const { context } = notebook(
    undefined,
    [{ "text/html": "<b>plot</b>" }, { "text/html": form("a1", "run:r-1", "launching") }],
    [{ "text/html": [form("b2", "clusters:x", "none")] }, {}],
  );
  assert.deepEqual(
    findForms(context).map((found) => found.form),
    [
      { anchor: "a1", subject: "run:r-1" },
      { anchor: "b2", subject: "clusters:x" },
    ],
  );
});

test("a form is written only where it differs, with the widget below it", () => {
  const { context, written } = notebook(
    [{ "text/html": form("a1", "run:r-1", "launching") }, { [VIEW]: { model_id: "old" } }],
    [{ "text/html": form("b2", "run:r-2", "ready") }],
  );
  const same = { html: form("b2", "run:r-2", "ready"), text: "ready" };
  placeForm(context, "b2", same);
  assert.deepEqual(written, []);
  const next = { html: form("a1", "run:r-1", "ended"), text: "ended" };
  const live = { [VIEW]: { model_id: "new" } };
  placeForm(context, "a1", { ...next, live });
  assert.deepEqual(written, [
    [0, 0, { "text/html": next.html, "text/plain": "ended" }],
    [0, 1, { "text/plain": "" }],
    [0, 1, live],
  ]);
  placeForm(context, "a1", { ...next, live });
  assert.equal(written.length, 3, "a widget that is there was drawn again");
  context.model.cells.get(0).outputs.get(1).data[VIEW].model_id = "";
  placeForm(context, "a1", { ...next, live: { [VIEW]: { model_id: "newer" } } });
  assert.equal(written.length, 5, "the place of a closed widget was left empty");
});
