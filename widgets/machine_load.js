// The load of a cluster's machines: a meter a figure, with the last minute as a line.

import { make, setText } from "./dom.js";

/** @typedef {import("./types").Meter} Meter */

const SVG = "http://www.w3.org/2000/svg";
const LINE_WIDTH = 52;
const LINE_HEIGHT = 14;
/** A minute's samples, 5 s apart: a shorter history begins further to the right. */
const SAMPLES = 13;
const WHOLE = 100;

/** The points of a line that ends at the right, now. @param {number[]} history */
export function linePoints(history) {
  const step = LINE_WIDTH / (SAMPLES - 1);
  const shown = history.slice(-SAMPLES);
  return shown
    .map((value, at) => {
      const x = LINE_WIDTH - (shown.length - 1 - at) * step;
      const y = 1 + (LINE_HEIGHT - 2) * (1 - Math.min(WHOLE, Math.max(0, value)) / WHOLE);
      return `${x.toFixed(1)},${y.toFixed(1)}`;
    })
    .join(" ");
}

function makeMeter() {
  const label = make("span", { class: "nbprov-why" });
  const words = make("span", { class: "nbprov-meter-words" });
  const drawing = document.createElementNS(SVG, "svg");
  drawing.setAttribute("class", "nbprov-meter-line");
  drawing.setAttribute("viewBox", `0 0 ${LINE_WIDTH} ${LINE_HEIGHT}`);
  drawing.setAttribute("aria-hidden", "true");
  const line = document.createElementNS(SVG, "polyline");
  drawing.append(line);
  const element = make("span", { class: "nbprov-meter" }, label, drawing, words);
  return {
    element,
    /** @param {Meter} meter */
    show(meter) {
      setText(label, meter.label);
      setText(words, meter.words);
      drawing.toggleAttribute("hidden", meter.history.length < 2);
      line.setAttribute("points", linePoints(meter.history));
    },
  };
}

export function makeLoad() {
  const element = make("div", { class: "nbprov-meters", role: "group" });
  /** @type {ReturnType<typeof makeMeter>[]} */
  let shown = [];
  return {
    element,
    /**
     * @param {string} name of the cluster
     * @param {Meter[]} meters
     */
    show(name, meters) {
      element.setAttribute("aria-label", `Load of ${name}`);
      element.hidden = !meters.length;
      if (shown.length !== meters.length) {
        shown = meters.map(makeMeter);
        element.replaceChildren(...shown.map((one) => one.element));
      }
      meters.forEach((meter, at) => shown[at]?.show(meter));
    },
  };
}
