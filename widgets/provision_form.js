// The form of an empty `%%provision` cell: a few questions, and the cell that they make.

import { copy } from "./clipboard.js";
import { make, makeRoot, makeStatus, setText } from "./dom.js";
import { cellOfAnswers } from "./form_cell.js";
import { count, usd } from "./format.js";

/** @typedef {import("./types").FormState} FormState */

/**
 * @param {string} words
 * @param {HTMLElement} field
 */
const labelled = (words, field) => make("label", { class: "nbprov-question" }, words, field);

/**
 * @param {Record<string, string | number>} attributes
 */
const numberBox = (attributes) =>
  make("input", { type: "number", class: "nbprov-input nbprov-most", ...attributes });

/**
 * @param {[string, string][]} options values and words
 */
const choiceBox = (options) =>
  make(
    "select",
    { class: "nbprov-input" },
    ...options.map(([value, words]) => make("option", { value }, words)),
  );

/** @type {import("@anywidget/types").Render<import("./types").Traits<FormState>>} */
function render({ model, el }) {
  const controller = new AbortController();
  const { signal } = controller;
  const root = makeRoot(model, el, "New machine", signal);
  const { gpus, places } = model.get("state");
  const name = make("input", { type: "text", class: "nbprov-input", placeholder: "dev", size: 10 });
  const gpu = choiceBox([
    ["", "none"],
    ...gpus.map((g) => /** @type {[string, string]} */ ([
      g.name,
      `${g.name}${g.memory ? `, ${g.memory} GiB` : ""}: from ${usd(g.each)} an hour each, ` +
        `${count(g.offers)} offers in ${g.clouds} cloud${g.clouds === 1 ? "" : "s"}`,
    ])),
  ]);
  const many = choiceBox([]);
  const cpus = numberBox({ min: 1, value: 2 });
  const market = choiceBox([
    ["", "on demand"],
    ["prefer", "spot first, then on demand"],
    ["spot", "spot alone"],
  ]);
  const most = numberBox({ min: 0, step: "any", placeholder: "any" });
  const idle = numberBox({ min: 1, value: 30 });
  const boxes = places.map(({ code, words }) => ({
    code,
    box: make("input", { type: "checkbox", value: code }),
    words,
  }));
  const howMany = labelled("how many", many);
  const howManyCpus = labelled("vCPUs, at least", cpus);
  const cell = make("pre", { class: "nbprov-cell-text", tabindex: 0, "aria-label": "Cell" });
  const status = makeStatus();
  const button = make(
    "button",
    { type: "button", class: "nbprov-button nbprov-primary" },
    "Copy cell",
  );
  const form = make(
    "div",
    { class: "nbprov-form" },
    labelled("name", name),
    labelled("GPU", gpu),
    howMany,
    howManyCpus,
    labelled("market", market),
    labelled("at most $ an hour", most),
    labelled("ends after idle minutes", idle),
    make(
      "fieldset",
      { class: "nbprov-question" },
      make("legend", {}, "where (anywhere if none is chosen)"),
      ...boxes.map(({ box, words }) => make("label", {}, box, ` ${words} `)),
    ),
  );
  const title = make("div", { class: "nbprov-title" }, "What do you need?");
  const buttons = make("div", { class: "nbprov-buttons" }, button);
  root.append(title, form, cell, buttons, status);

  function showCounts() {
    const counts = gpus.find((g) => g.name === gpu.value)?.counts ?? [];
    const before = many.value;
    many.replaceChildren(...counts.map((n) => make("option", { value: n }, String(n))));
    many.value = counts.map(String).includes(before) ? before : String(counts[0] ?? "");
    howMany.hidden = !gpu.value;
    howManyCpus.hidden = Boolean(gpu.value);
  }

  const written = () =>
    cellOfAnswers({
      name: name.value,
      gpu: gpu.value,
      count: many.value,
      cpus: cpus.value,
      places: boxes.filter(({ box }) => box.checked).map(({ code }) => code),
      market: market.value,
      most: most.value,
      idle: idle.value,
    });
  form.addEventListener(
    "input",
    (event) => {
      if (event.target === gpu) showCounts();
      setText(cell, written());
    },
    { signal },
  );
  button.addEventListener(
    "click",
    () => {
      void copy(written()).then(() =>
        setText(status, "the cell is copied: paste it over this one, or into the next"),
      );
    },
    { signal },
  );
  showCounts();
  setText(cell, written());
  return () => controller.abort();
}

export default { render };
