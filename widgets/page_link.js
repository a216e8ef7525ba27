// The code of a kernel in each page of its notebook. It keeps the static forms as the kernel has
// them, over reloads and restarts, and shows what the kernel finds wrong in a cell that is typed.
// Only JupyterLab and Notebook let a widget reach the notebook's model; elsewhere this does nothing.

import { watchTyping } from "./cell_problems.js";
import { hasMark, replaceOutputs } from "./ended_cells.js";
import { findForms, placeForm } from "./forms.js";

const TYPING = Symbol.for("nbprov.typing");
const BADGE_MS = 2000;

/** @typedef {import("./types").FromKernelToPage} FromKernelToPage */
/** @typedef {import("./types").FromPage} FromPage */

/** @type {import("@anywidget/types").Initialize<{}>} */
function initialize({ model }) {
  const manager = /** @type {any} */ (model.widget_manager);
  const context = manager?.context;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let arriving;
  if (!context?.model?.cells) return undefined;
  /** @param {FromKernelToPage} message */
  const received = (message) => {
    if (message.type === "outputs") {
      for (const one of message.outputs) placeForm(context, one.anchor, one);
    } else if (message.type === "problems") {
      typing.show(message.source, message.problems);
    } else if (message.type === "cells") {
      // The badge itself may still be on its way.
      arriving = setTimeout(() => message.cells.forEach(report), BADGE_MS);
    } else if (message.type === "cell") {
      if (hasMark(context, message) === false) replaceOutputs(context, message);
      report(message);
    } else if (manager.restoredStatus) {
      tell();
    }
  };
  /** @param {import("./types").EndedCell} one */
  const report = ({ cell, mark }) => {
    const isSeen = hasMark(context, { cell, mark });
    if (isSeen === undefined) return; // the cell was removed
    try {
      model.send({ type: isSeen ? "cell-seen" : "cell-missing", cell, mark });
    } catch {
      // The kernel has ended since.
    }
  };
  // Sending fails where the kernel has ended since: there is nothing to keep then.
  const tell = () =>
    context.ready
      .then(() => {
        /** @type {FromPage} */
        const message = { type: "forms", forms: findForms(context).map((found) => found.form) };
        model.send(message);
      })
      .catch(() => {});
  // After a restart the widgets of the kernel before are still there.
  context[TYPING]?.end();
  const typing = watchTyping(context, (source) => {
    try {
      model.send({ type: "cell", source });
    } catch {
      // The kernel has ended since; the next one has a link of its own.
    }
  });
  context[TYPING] = typing;
  model.on("msg:custom", received);
  // It is emitted once the widgets of a page that was just opened are there, since what is written
  // before is drawn over. It is emitted again when a lost connection is back, because what the
  // kernel sent in the meantime did not arrive.
  manager.restored.connect(tell);
  if (manager.restoredStatus) tell();
  return () => {
    typing.end();
    clearTimeout(arriving);
    model.off("msg:custom", received);
    manager.restored.disconnect(tell);
  };
}

export default { initialize };
