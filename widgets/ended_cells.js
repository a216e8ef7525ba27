// Remote cells that ended while no page of the notebook was open: this page shows what they printed.

/** @typedef {import("./types").EndedCell} EndedCell */

/**
 * Return the notebook's model of a cell.
 * @param {any} context the notebook's document context
 * @param {string} id
 */
function findCell(context, id) {
  const { cells } = context.model;
  for (let at = 0; at < cells.length; at++) if (cells.get(at).id === id) return cells.get(at);
  return undefined;
}

/**
 * Return whether a cell shows the badge of this run; undefined where there is no such cell.
 * @param {any} context
 * @param {EndedCell} ended
 */
export function hasMark(context, { cell, mark }) {
  const outputs = findCell(context, cell)?.outputs;
  if (!outputs) return undefined;
  for (let index = 0; index < outputs.length; index++) {
    const html = [outputs.get(index).data?.["text/html"]].flat().join("");
    if (html.includes(`data-nbprov-cell="${mark}"`)) return true;
  }
  return false;
}

/**
 * Show the outputs of a run in place of what its cell shows.
 * @param {any} context
 * @param {EndedCell & { outputs: unknown[] }} ended
 */
export function replaceOutputs(context, { cell, outputs }) {
  const shown = findCell(context, cell)?.outputs;
  shown?.clear();
  for (const output of outputs) shown?.add(output);
}
