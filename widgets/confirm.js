// A button for what cannot be undone: it needs a second press within a few seconds.

import { make, setText } from "./dom.js";

const CONFIRM_MS = 3000;

/**
 * @param {{ words: string, confirm: string, signal: AbortSignal, onPress: () => void }} options
 */
export function makeConfirmButton({ words, confirm, signal, onPress }) {
  const element = make("button", { type: "button", class: "nbprov-button nbprov-danger" }, words);
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  const disarm = () => {
    clearTimeout(timer);
    timer = undefined;
    element.classList.remove("nbprov-armed");
    setText(element, words);
  };
  element.addEventListener(
    "click",
    () => {
      if (timer !== undefined) {
        disarm();
        onPress();
        return;
      }
      element.classList.add("nbprov-armed");
      setText(element, confirm);
      timer = setTimeout(disarm, CONFIRM_MS);
    },
    { signal },
  );
  signal.addEventListener("abort", () => clearTimeout(timer));
  return {
    element,
    /** @param {boolean} isBusy */
    setBusy(isBusy) {
      element.disabled = isBusy;
    },
  };
}
