// What was spent on each of the last days: a bar a day, stacked by cloud. Today's bar grows with
// what is on the bill.

import { costAt, usd } from "./format.js";
import { make, setText, setTitle } from "./dom.js";

/** @typedef {import("./types").DailyCosts} DailyCosts */

// The palette of Okabe and Ito, which people who see few colours can tell apart.
const COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00"];
const GREY = "#888888";
const FULL = 100;

/** @param {number[]} numbers */
const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);

/** @param {string} day an ISO date */
const dayWords = (day) =>
  new Date(`${day}T12:00:00`).toLocaleDateString(undefined, { month: "short", day: "numeric" });

/** @param {DailyCosts} days */
const dayTotals = (days) =>
  days.days.map((_, at) => sum(days.clouds.map((one) => one.costs[at] ?? 0)));

/**
 * Return the costs as of `now`, which grow from those of `at` as the total beside them does.
 * @param {DailyCosts} days
 * @param {number} at
 * @param {number} now
 * @returns {DailyCosts}
 */
export function grown(days, at, now) {
  const clouds = days.clouds.map((one) => ({
    ...one,
    costs: [...one.costs.slice(0, -1), costAt(one.costs.at(-1) ?? 0, one.hourly, at, now)],
  }));
  return { ...days, clouds };
}

/** What a plot says to those who cannot see it. @param {DailyCosts} days */
export function words(days) {
  const totals = dayTotals(days);
  const most = totals.indexOf(Math.max(...totals));
  const dearest = `the most on ${dayWords(days.days[most] ?? "")}: ${usd(totals[most] ?? 0)}`;
  return `${usd(sum(totals))} in ${totals.length} days, ${dearest}`;
}

/** A part in the colour of a cloud. @param {string} name @param {number} number */
function coloured(name, number) {
  const part = make("div", { class: name });
  part.style.background = COLOURS[number] ?? GREY;
  return part;
}

export function makeDayCosts() {
  const said = make("span", { class: "nbprov-why" });
  const plot = make("div", { class: "nbprov-day-bars", role: "img" });
  const legend = make("div", { class: "nbprov-legend" });
  const ends = make("div", { class: "nbprov-day-ends" });
  const head = make("div", {}, make("strong", {}, "Spent by day"), " ", said);
  const element = make("div", { class: "nbprov-days" }, head, plot, ends, legend);
  /** @type {DailyCosts} */
  let days;
  /** @type {HTMLElement[]} */
  let bars = [];
  /** @type {HTMLElement[]} */
  let sums = [];
  let drawn = "";
  return {
    element,
    /** @param {DailyCosts} given */
    show(given) {
      days = given;
      const { clouds } = days;
      element.hidden = !clouds.length;
      const next = `${days.days} ${clouds.length}`;
      if (element.hidden || next === drawn) return;
      drawn = next;
      const parts = () => clouds.map((_, number) => coloured("nbprov-day-part", number));
      bars = days.days.map(() => make("div", { class: "nbprov-day" }, ...parts()));
      plot.replaceChildren(...bars);
      sums = clouds.map(() => make("span"));
      legend.replaceChildren(
        ...sums.map((one, number) => make("span", {}, coloured("nbprov-key", number), one)),
      );
      ends.replaceChildren(
        make("span", {}, dayWords(days.days[0] ?? "")),
        make("span", {}, dayWords(days.days.at(-1) ?? "")),
      );
    },
    /**
     * @param {number} at
     * @param {number} now
     */
    tick(at, now) {
      if (element.hidden) return;
      const spent = grown(days, at, now);
      const told = words(spent);
      setText(said, told);
      plot.setAttribute("aria-label", told);
      const totals = dayTotals(spent);
      const most = Math.max(...totals, 1);
      bars.forEach((bar, day) => {
        const label = `${dayWords(days.days[day] ?? "")}: ${usd(totals[day] ?? 0)}`;
        // A title that is set again would vanish under the pointer.
        if (bar.title !== label) setTitle(bar, label);
        spent.clouds.forEach(({ costs }, number) => {
          const part = /** @type {HTMLElement} */ (bar.children[number]);
          const cost = costs[day] ?? 0;
          part.hidden = !cost;
          part.style.height = `${(FULL * cost) / most}%`;
        });
      });
      spent.clouds.forEach(({ cloud, costs, simulated }, number) => {
        const one = /** @type {HTMLElement} */ (sums[number]);
        setText(one, `${cloud} ${usd(sum(costs))}${simulated ? "*" : ""}`);
      });
    },
  };
}
