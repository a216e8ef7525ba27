// What would open more places to a launch that failed.

import { keepFocus, make } from "./dom.js";

/** @typedef {import("./types").RunState} RunState */

/**
 * What would open more places, each with a button that launches again with it, and one that copies
 * what a person can paste instead.
 * @param {AbortSignal} signal
 * @param {(words: string) => void} press
 * @param {(text: string) => void} take
 */
export function makeOpenings(signal, press, take) {
  const element = make("div", { class: "nbprov-openings", hidden: true });
  let shown = "";
  /**
   * @param {string} words
   * @param {string} label
   * @param {() => void} onClick
   */
  const makeButton = (words, label, onClick) => {
    const button = make("button", { type: "button", class: "nbprov-button" }, words);
    button.setAttribute("aria-label", `${words}: ${label}`);
    button.addEventListener("click", onClick, { signal });
    return button;
  };
  return {
    element,
    /** @param {RunState["openings"]} openings */
    show(openings) {
      if (shown === JSON.stringify(openings)) return;
      shown = JSON.stringify(openings);
      keepFocus(element, () => {
        element.hidden = !openings.length;
        element.replaceChildren(
          make("strong", {}, "What would open more places"),
          ...openings.map((one) =>
            make(
              "div",
              {},
              make("span", {}, one.words),
              ...(one.press ? [makeButton(one.press, one.words, () => press(one.words))] : []),
              ...(one.text ? [makeButton("Copy", one.text, () => take(one.text))] : []),
            ),
          ),
        );
      });
    },
    /** @param {boolean} isBusy whether another launch is on its way */
    setBusy(isBusy) {
      keepFocus(element, () => {
        for (const button of element.querySelectorAll("button")) button.disabled = isBusy;
      });
    },
  };
}
