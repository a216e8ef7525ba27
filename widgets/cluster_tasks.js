// The latest jobs and cells of a cluster, and what one of them printed, behind a button.

import { duration } from "./format.js";
import { make, makeToggle, setText, setVerbatim } from "./dom.js";

/** @typedef {import("./types").Task} Task */

/**
 * @param {string} name the cluster's
 * @param {number} columns how many the table has
 * @param {AbortSignal} signal
 * @param {(kind: string, id: string) => void} ask for the output of one of them, or for the list
 */
export function makeTasks(name, columns, signal, ask) {
  const list = make("ul", { class: "nbprov-tasks", "aria-label": `Jobs and cells of ${name}` });
  const output = make("pre", { class: "nbprov-log", tabindex: "0", hidden: true });
  const note = make("div", { class: "nbprov-why" });
  const cell = make("td", { colspan: String(columns) }, note, list, output);
  const row = make("tr", { class: "nbprov-detail" }, cell);
  let opened = "";
  const toggle = makeToggle("jobs, cells, log", row, signal, () => {
    setText(note, "asking the machine …");
    note.hidden = false;
    output.hidden = true;
    opened = "";
    ask("", "");
  });
  toggle.button.setAttribute("aria-label", `jobs, cells, log of ${name}`);

  /** @param {Task} task */
  function makeTask(task) {
    const length =
      task.started !== null && task.ended !== null ? ` · ${duration(task.ended - task.started)}` : "";
    const open = make(
      "button",
      { type: "button", class: "nbprov-toggle", "aria-expanded": "false" },
      `${task.kind} ${task.id}`,
    );
    open.addEventListener(
      "click",
      () => {
        const isOpened = opened === task.id;
        opened = isOpened ? "" : task.id;
        for (const one of list.querySelectorAll("button"))
          one.setAttribute("aria-expanded", String(one === open && !isOpened));
        output.hidden = isOpened;
        if (isOpened) return;
        output.setAttribute("aria-label", `Output of ${task.id}`);
        setText(output, "asking the machine …");
        ask(task.kind, task.id);
      },
      { signal },
    );
    const code = task.code ? ` · ${task.code}` : "";
    const words = make("span", { class: "nbprov-why" }, ` ${task.words}${length}${code}`);
    return make("li", {}, open, words);
  }
  return {
    button: toggle.button,
    row,
    show: toggle.allow,
    /**
     * @param {Task[]} tasks
     * @param {string} problem
     */
    list(tasks, problem) {
      setText(note, problem || (tasks.length ? "" : "no job and no cell has run there"));
      note.hidden = !note.textContent;
      list.replaceChildren(...tasks.map(makeTask));
    },
    /**
     * @param {string} id
     * @param {string} text
     */
    tell(id, text) {
      if (id !== opened) return;
      setVerbatim(output, text);
      output.scrollTop = output.scrollHeight;
    },
  };
}
