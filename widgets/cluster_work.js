// The latest jobs and cells of a cluster, and what one of them printed, behind a button.

import { duration } from "./format.js";
import { make, setText } from "./dom.js";

/** @typedef {import("./types").WorkItem} WorkItem */

/**
 * @param {string} name the cluster's
 * @param {number} columns how many the table has
 * @param {AbortSignal} signal
 * @param {(kind: string, id: string) => void} ask for the output of one of them, or for the list
 */
export function makeWork(name, columns, signal, ask) {
  const button = make(
    "button",
    { type: "button", class: "nbprov-toggle nbprov-console", "aria-expanded": "false", hidden: true },
    "work",
  );
  button.setAttribute("aria-label", `Jobs and cells of ${name}`);
  const list = make("ul", { class: "nbprov-work", "aria-label": `Jobs and cells of ${name}` });
  const output = make("pre", { class: "nbprov-log", tabindex: "0", hidden: true });
  const note = make("div", { class: "nbprov-why" });
  const cell = make("td", { colspan: String(columns) }, note, list, output);
  const row = make("tr", { class: "nbprov-detail", hidden: true }, cell);
  let opened = "";
  button.addEventListener(
    "click",
    () => {
      row.hidden = !row.hidden;
      button.setAttribute("aria-expanded", String(!row.hidden));
      if (row.hidden) return;
      setText(note, "asking the machine …");
      ask("", "");
      if (opened) output.hidden = true;
      opened = "";
    },
    { signal },
  );

  /** @param {WorkItem} item */
  function makeItem(item) {
    const length =
      item.started !== null && item.ended !== null ? ` · ${duration(item.ended - item.started)}` : "";
    const open = make(
      "button",
      { type: "button", class: "nbprov-toggle", "aria-expanded": "false" },
      `${item.kind} ${item.id}`,
    );
    open.addEventListener(
      "click",
      () => {
        const isOpened = opened === item.id;
        opened = isOpened ? "" : item.id;
        for (const one of list.querySelectorAll("button"))
          one.setAttribute("aria-expanded", String(one === open && !isOpened));
        output.hidden = isOpened;
        if (isOpened) return;
        output.setAttribute("aria-label", `Output of ${item.id}`);
        setText(output, "asking the machine …");
        ask(item.kind, item.id);
      },
      { signal },
    );
    const code = item.code ? ` · ${item.code}` : "";
    const words = make("span", { class: "nbprov-why" }, ` ${item.words}${length}${code}`);
    return make("li", {}, open, words);
  }
  return {
    button,
    row,
    /** @param {boolean} canAsk */
    show(canAsk) {
      button.hidden = !canAsk;
      row.hidden ||= !canAsk;
      button.setAttribute("aria-expanded", String(!row.hidden));
    },
    /**
     * @param {WorkItem[]} items
     * @param {string} problem
     */
    list(items, problem) {
      setText(note, problem || (items.length ? "" : "no job and no cell has run there"));
      note.hidden = !note.textContent;
      list.replaceChildren(...items.map(makeItem));
    },
    /**
     * @param {string} id
     * @param {string} text
     */
    tell(id, text) {
      if (id !== opened) return;
      setText(output, text);
      output.scrollTop = output.scrollHeight;
    },
  };
}
