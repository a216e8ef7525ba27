// The parts of a dashboard around its table: growing amounts, and sections of lines.
// A clusters table without a dashboard has neither.

import { costAt, otherDay, usd } from "./format.js";
import { linked, make, setText } from "./dom.js";

/** @typedef {import("./types").Figure} Figure */
/** @typedef {import("./types").Section} Section */

export function makeFacts() {
  const figures = make("div", { class: "nbprov-figures" });
  const sections = make("div", { class: "nbprov-sections" });
  const note = make("div", { class: "nbprov-foot" });
  /** @type {{ figure: Figure, amount: HTMLElement }[]} */
  let amounts = [];
  let drawn = "";
  /** @param {Figure} figure */
  const one = (figure) => {
    const amount = make("span", { class: "nbprov-amount" });
    amounts.push({ figure, amount });
    const grows = figure.hourly ? `${usd(figure.hourly)}/h now` : "";
    return make(
      "div",
      { class: "nbprov-figure" },
      make("span", { class: "nbprov-why" }, figure.label),
      amount,
      make("span", { class: "nbprov-why" }, grows),
    );
  };
  /** @param {Section} section */
  const part = (section) =>
    make(
      "div",
      {},
      make("div", { class: "nbprov-strong" }, section.title),
      ...section.warnings.map((line) =>
        make("div", { class: "nbprov-line-of-section nbprov-old" }, "▲ ", ...linked(line)),
      ),
      ...section.lines.map((line) =>
        make("div", { class: "nbprov-line-of-section" }, ...linked(line)),
      ),
    );
  return {
    figures,
    note,
    sections,
    /**
     * @param {Figure[]} given
     * @param {Section[]} below
     * @param {number} dayBegan when the kernel's day began
     */
    show(given, below, dayBegan) {
      figures.hidden = !given.length;
      const began = given.length ? otherDay(dayBegan) : "";
      note.hidden = !began;
      setText(note, began && `days and months are those of the kernel's time zone: today began at ${began}`);
      sections.hidden = !below.length;
      amounts = [];
      figures.replaceChildren(...given.map(one));
      // Unchanged lines are left alone, because a person may be selecting them.
      const next = JSON.stringify(below);
      if (next === drawn) return;
      drawn = next;
      sections.replaceChildren(...below.map(part));
    },
    /**
     * @param {number} at
     * @param {number} now
     */
    tick(at, now) {
      for (const { figure, amount } of amounts)
        setText(
          amount,
          usd(costAt(figure.cost, figure.hourly, at, now)) + (figure.simulated ? "*" : ""),
        );
    },
  };
}
