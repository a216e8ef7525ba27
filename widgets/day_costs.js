// What was spent on each of the last days: a bar a day, stacked by cloud.

import { usd } from "./format.js";
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

/** What a plot says to those who cannot see it. @param {DailyCosts} days */
export function words(days) {
  const totals = dayTotals(days);
  const most = totals.indexOf(Math.max(...totals));
  const dearest = `the most on ${dayWords(days.days[most] ?? "")}: ${usd(totals[most] ?? 0)}`;
  return `${usd(sum(totals))} in ${totals.length} days, ${dearest}`;
}

export function makeDayCosts() {
  const said = make("span", { class: "nbprov-why" });
  const bars = make("div", { class: "nbprov-day-bars", role: "img" });
  const legend = make("div", { class: "nbprov-legend" });
  const ends = make("div", { class: "nbprov-day-ends" });
  const head = make("div", {}, make("strong", {}, "Spent by day"), " ", said);
  const element = make("div", { class: "nbprov-days" }, head, bars, ends, legend);
  let drawn = "";
  return {
    element,
    /** @param {DailyCosts} days */
    show(days) {
      element.hidden = !days.clouds.length;
      const next = JSON.stringify(days);
      if (element.hidden || next === drawn) return;
      drawn = next;
      setText(said, words(days));
      bars.setAttribute("aria-label", words(days));
      const totals = dayTotals(days);
      const most = Math.max(...totals, 1);
      bars.replaceChildren(
        ...days.days.map((day, at) => {
          const bar = make("div", { class: "nbprov-day" });
          setTitle(bar, `${dayWords(day)}: ${usd(totals[at] ?? 0)}`);
          days.clouds.forEach((one, number) => {
            const cost = one.costs[at] ?? 0;
            if (!cost) return;
            const part = make("div", { class: "nbprov-day-part" });
            part.style.height = `${(FULL * cost) / most}%`;
            part.style.background = COLOURS[number] ?? GREY;
            bar.append(part);
          });
          return bar;
        }),
      );
      ends.replaceChildren(
        make("span", {}, dayWords(days.days[0] ?? "")),
        make("span", {}, dayWords(days.days.at(-1) ?? "")),
      );
      legend.replaceChildren(
        ...days.clouds.map((one, number) => {
          const mark = make("span", { class: "nbprov-key" });
          mark.style.background = COLOURS[number] ?? GREY;
          const free = one.simulated ? "*" : "";
          return make("span", {}, mark, `${one.cloud} ${usd(sum(one.costs))}${free}`);
        }),
      );
    },
  };
}
