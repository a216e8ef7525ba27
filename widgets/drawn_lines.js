// Which lines of a text an editor has drawn. CodeMirror draws those in sight and some around them,
// and tells of no line which one it is.

/**
 * Return where runs of drawn lines lie in a text: the number of the first line of each, from 0.
 * Between two runs lines are left out. A run whose lines stand in several places is where the editor
 * has about this many lines above it. Undefined where the text has no such lines.
 * @param {string[]} text
 * @param {{ lines: string[], above: number }[]} runs
 * @returns {number[] | undefined}
 */
export function placesOf(text, runs) {
  /** @type {number[]} */
  const places = [];
  let least = 0;
  for (const { lines, above } of runs) {
    let best = -1;
    for (let at = least; at + lines.length <= text.length; at++) {
      if (best >= 0 && Math.abs(at - above) >= Math.abs(best - above)) continue;
      if (lines.every((line, number) => line === text[at + number])) best = at;
    }
    if (best < 0) return undefined;
    places.push(best);
    least = best + lines.length + 1;
  }
  return places;
}

/**
 * Return the lines that an editor has drawn, by their number from 1; undefined where it has another
 * text.
 * @param {Element} editor
 * @param {string} source
 * @returns {Map<number, Element> | undefined}
 */
export function drawnLines(editor, source) {
  /** @type {Element[][]} */
  const runs = [];
  let isGap = true;
  for (const child of editor.children) {
    const isLine = child.matches(".cm-line");
    if (isLine && isGap) runs.push([]);
    if (isLine) runs.at(-1)?.push(child);
    isGap = !isLine;
  }
  const boxOf = (/** @type {Element} */ line) => line.getBoundingClientRect();
  const [top, height] = [boxOf(editor).top, boxOf(runs[0]?.[0] ?? editor).height || 1];
  const told = runs.map((lines) => ({
    lines: lines.map((line) => line.textContent ?? ""),
    above: lines[0] ? (boxOf(lines[0]).top - top) / height : 0,
  }));
  const text = source.split("\n");
  const places = placesOf(text, told);
  const count = told.reduce((sum, { lines }) => sum + lines.length, 0);
  // Without a gap all lines are drawn.
  if (!places || (editor.childElementCount === count && count !== text.length)) return undefined;
  return new Map(
    runs.flatMap((lines, run) => lines.map((line, at) => [(places[run] ?? 0) + at + 1, line])),
  );
}
