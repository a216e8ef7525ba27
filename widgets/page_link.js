// The code of a kernel in each page of its notebook: it keeps the static forms as the kernel has them,
// over reloads and restarts. Only JupyterLab and Notebook let a widget reach the notebook's model;
// elsewhere this does nothing.

import { findForms, placeForm } from "./forms.js";

/** @typedef {import("./types").FromKernelToPage} FromKernelToPage */
/** @typedef {import("./types").FromPage} FromPage */

/** @type {import("@anywidget/types").Initialize<{}>} */
function initialize({ model }) {
  const manager = /** @type {any} */ (model.widget_manager);
  const context = manager?.context;
  if (!context?.model?.cells) return undefined;
  /** @param {FromKernelToPage} message */
  const received = (message) => {
    if (message.type === "outputs") {
      for (const one of message.outputs) placeForm(context, one.anchor, one);
    } else if (manager.restoredStatus) {
      tell();
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
  model.on("msg:custom", received);
  // It is emitted once the widgets of a page that was just opened are there, since what is written
  // before is drawn over. It is emitted again when a lost connection is back, because what the
  // kernel sent in the meantime did not arrive.
  manager.restored.connect(tell);
  if (manager.restoredStatus) tell();
  return () => {
    model.off("msg:custom", received);
    manager.restored.disconnect(tell);
  };
}

export default { initialize };
