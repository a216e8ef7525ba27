// The static forms in the notebook's model: where they are, and how they are renewed.

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
 * Return the id of the widget that an output shows; JupyterLab empties it once the widget is closed.
 * @param {any} data
 * @returns {string | undefined}
 */
const modelOf = (data) => data?.["application/vnd.jupyter.widget-view+json"]?.model_id;

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
    const below = index + 1 < outputs.length ? modelOf(outputs.get(index + 1).data) : undefined;
    if (wanted.live && below !== undefined && below !== modelOf(wanted.live)) {
      // Another type in between makes JupyterLab draw it anew. It looks for a widget for two
      // seconds, and the element that still looks for the old one would write "model not found".
      outputs.set(index + 1, output({ "text/plain": "" }));
      outputs.set(index + 1, output(wanted.live));
    }
  }
}
