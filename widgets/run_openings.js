// What would open more places to a launch that failed.

import { make } from "./dom.js";

/** @typedef {import("./types").RunState} RunState */

/**
 * What would open more places, each with a button that copies the text to paste.
 * @param {AbortSignal} signal
 * @param {(text: string) => void} take
 */
export function makeOpenings(signal, take) {
  const element = make("div", { class: "nbprov-openings", hidden: true });
  let shown = "";
  return {
    element,
    /** @param {RunState["openings"]} openings */
    show(openings) {
      element.hidden = !openings.length;
      if (shown === JSON.stringify(openings)) return;
      shown = JSON.stringify(openings);
      element.replaceChildren(
        make("strong", {}, "What would open more places"),
        ...openings.map(({ words, text }) => {
          const line = make("div", {}, make("span", {}, words));
          if (!text) return line;
          const button = make("button", { type: "button", class: "nbprov-button" }, "Copy");
          button.setAttribute("aria-label", `Copy ${text}`);
          button.addEventListener("click", () => take(text), { signal });
          line.append(button);
          return line;
        }),
      );
    },
  };
}
