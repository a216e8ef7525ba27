// What was spent of the budgets of clusters: words, and a bar that grows with them.

import { costAt, usd } from "./format.js";
import { make, patchList, setText } from "./dom.js";

/** @typedef {import("./types").Budget} Budget */

const WHOLE_BUDGET = 100;

/**
 * Return how much of a budget is spent, in whole percent.
 * @param {number} spent
 * @param {number} limit
 */
export const percentSpent = (spent, limit) => Math.floor((WHOLE_BUDGET * spent) / limit);

/** @param {Budget} budget */
function makeBudget({ name }) {
  const words = make("span");
  const bar = make("div");
  const meter = make(
    "div",
    { class: "nbprov-budget-bar", role: "meter", "aria-label": `Budget of ${name}` },
    bar,
  );
  return {
    elements: [make("div", { class: "nbprov-budget" }, words, meter)],
    /**
     * @param {Budget} budget
     * @param {number} spent
     */
    show(budget, spent) {
      const percent = percentSpent(spent, budget.limit);
      const free = budget.simulated ? "*" : "";
      setText(words, `${budget.name} ${usd(spent)}${free} of ${usd(budget.limit)}, ${percent} %`);
      bar.style.width = `${Math.min(WHOLE_BUDGET, (WHOLE_BUDGET * spent) / budget.limit)}%`;
      if (meter.getAttribute("aria-valuenow") === String(percent)) return;
      meter.setAttribute("aria-valuenow", String(percent));
      meter.setAttribute("aria-valuetext", words.textContent ?? "");
    },
  };
}

export function makeBudgets() {
  const list = make("div", { class: "nbprov-budget-list" });
  const element = make("div", {}, make("strong", {}, "Spent of budgets"), list);
  /** @type {Map<string, ReturnType<typeof makeBudget>>} */
  const views = new Map();
  /** @type {Budget[]} */
  let budgets = [];
  return {
    element,
    /** @param {Budget[]} given */
    show(given) {
      budgets = given;
      element.hidden = !given.length;
      patchList(list, views, given, (one) => one.key, makeBudget);
    },
    /**
     * @param {number} at
     * @param {number} now
     */
    tick(at, now) {
      for (const one of budgets)
        views.get(one.key)?.show(one, costAt(one.spent, one.hourly, at, now));
    },
  };
}
