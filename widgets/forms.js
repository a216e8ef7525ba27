// The static forms in the notebook's model: kept as the kernel has them, over reloads and restarts.
// Only JupyterLab and Notebook let a widget reach that model; elsewhere this does nothing.

const ANCHOR = /^<div data-nbprov="([0-9a-f]+)">/;
const SUBJECT = /<i data-nbprov-subject="([^"]*)"/;

/** @typedef {import("./types").Form} Form */
/** @typedef {import("./types").FormOutputs} FormOutputs */
/** @typedef {{ outputs: any, index: number, form: Form, html: string }} Found */

/**
 * Return the forms in a notebook, with the place of each.
 * @param {any} context the notebook's document context
 * @returns {Found[]}
 */
export function findForms(context) {
  /** @type {Found[]} */
  const found = [];
  const cells = context.model.cells;
  for (let at = 0; at < cells.length; at++) {
    const outputs = cells.get(at).outputs ?? [];
    for (let index = 0; index < outputs.length; index++) {
      const html = [outputs.get(index).data?.["text/html"]].flat().join("");
      const anchor = ANCHOR.exec(html)?.[1];
      const subject = SUBJECT.exec(html)?.[1] ?? "";
      if (anchor) found.push({ outputs, index, form: { anchor, subject }, html });
    }
  }
  return found;
}

/**
 * Write a form, and the widget below it, into the notebook where they differ.
 * @param {any} context
 * @param {string} anchor
 * @param {FormOutputs} wanted
 */
export function placeForm(context, anchor, wanted) {
  const output = (/** @type {Record<string, unknown>} */ data) => ({
    output_type: "display_data",
    data,
    metadata: {},
  });
  for (const { outputs, index, form, html } of findForms(context)) {
    if (form.anchor !== anchor) continue;
    if (html !== wanted.html)
      outputs.set(index, output({ "text/html": wanted.html, "text/plain": wanted.text }));
    // The widget's output is the next one, as long as nobody changed the cell.
    const below = index + 1 < outputs.length && outputs.get(index + 1).data;
    if (wanted.live && below?.["application/vnd.jupyter.widget-view+json"]) outputs.set(index + 1, output(wanted.live));
  }
}

/**
 * Keep the forms of this page's notebook. Called once for each panel, also where it is not drawn.
 * @param {{ model: import("@anywidget/types").AnyModel<any> }} given
 */
export function keepForms({ model }) {
  const context = /** @type {any} */ (model.widget_manager)?.context;
  if (!context?.model?.cells) return;
  const forms = () => findForms(context).map((found) => found.form);
  /** @param {any} message */
  const received = (message) => {
    for (const one of message.outputs ?? []) placeForm(context, one.anchor, one);
  };
  model.on("msg:custom", received);
  // A kernel that is loaded after this one has ended asks what there is.
  context.sessionContext.session?.kernel?.registerCommTarget(
    "nbprov.page",
    (/** @type {any} */ comm) => {
      comm.onMsg = (/** @type {any} */ message) => received(message.content.data);
      comm.send({ forms: forms() });
    },
  );
  // It fails where the kernel has ended since: there is nothing to keep then.
  context.ready.then(() => model.send({ type: "forms", forms: forms() })).catch(() => {});
}
