// A button for what cannot be undone: it needs a second press within a few seconds, and not at once,
// because a double click or a key that is held down is one intention and not two.

import { make, setText } from "./dom.js";

const CONFIRM_MS = 4000;

// Longer than the two clicks of a double click may lie apart (0.5 s on most systems).
const DEAD_MS = 700;

/**
 * @param {{ words: string, confirm: string, signal: AbortSignal, onPress: () => void }} options
 */
export function makeConfirmButton({ words, confirm, signal, onPress }) {
  const element = make("button", { type: "button", class: "nbprov-button nbprov-danger" }, words);
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let dead;
  const revive = () => {
    clearTimeout(dead);
    dead = undefined;
    element.removeAttribute("aria-disabled");
  };
  const disarm = () => {
    clearTimeout(timer);
    timer = undefined;
    revive();
    element.classList.remove("nbprov-armed");
    setText(element, words);
  };
  element.addEventListener(
    "click",
    () => {
      if (dead !== undefined) return;
      if (timer !== undefined) {
        disarm();
        onPress();
        return;
      }
      element.classList.add("nbprov-armed");
      setText(element, confirm);
      timer = setTimeout(disarm, CONFIRM_MS);
      // Not `disabled`, which would take the keyboard's focus away.
      element.setAttribute("aria-disabled", "true");
      dead = setTimeout(revive, DEAD_MS);
    },
    { signal },
  );
  element.addEventListener(
    "keydown",
    // A button takes Enter at each repetition, but Space only once it is let go.
    (event) => event.repeat && event.key === "Enter" && event.preventDefault(),
    { signal },
  );
  // The timers end by themselves. A listener to the panel's signal that clears them would hold each
  // button, and with it the row of a cluster that has gone, for as long as the panel is there.
  return {
    element,
    /** @param {boolean} isBusy */
    setBusy(isBusy) {
      element.disabled = isBusy;
    },
  };
}
