// Putting a text on the clipboard.

import { make } from "./dom.js";

/**
 * Put a text on the clipboard; pages that are not served securely have the older way only.
 * @param {string} text
 */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const box = make("textarea", { class: "nbprov-away", "aria-hidden": "true" });
    box.value = text;
    document.body.append(box);
    box.select();
    document.execCommand("copy");
    box.remove();
  }
}
