// What is wrong in a cell, shown while it is typed: each word underlined, and what to write instead
// at the end of its line. No line of the editor is changed: what is shown lies over them, and is
// drawn anew after each change.

const WITH_SPEC = /^\s*%%(provision|nbprov\s+plan)\s/;
const PAUSE_MS = 400; // without a key, before the kernel is asked
const MOST_SHOWN = 20;
const NAME = "nbprov-problem";
const LEAST_ROOM = 200; // pixels of a note, which may lie over the end of a long line
const COLOR = "var(--jp-error-color1, #c62828)";
const UNDERLINE = `text-decoration: underline wavy ${COLOR}; text-underline-offset: 3px`;
const NOTE_STYLE = {
  position: "absolute",
  zIndex: "3",
  boxSizing: "border-box",
  padding: "0 2ch",
  overflow: "hidden",
  textOverflow: "ellipsis",
  whiteSpace: "nowrap",
  color: COLOR,
  background: "var(--jp-cell-editor-active-background, transparent)",
  font: "italic 0.9em var(--jp-ui-font-family, sans-serif)",
};

/** @typedef {import("./types").CellProblem} CellProblem */

/**
 * Ask for the problems of each cell with a spec while it is typed.
 * @param {any} context the notebook's document context
 * @param {(source: string) => void} ask
 */
export function watchTyping(context, ask) {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let pause;
  /** @type {HTMLElement | undefined} */
  let notes;
  let listening = new AbortController();
  const clear = () => {
    if (!notes) return; // what is underlined belongs to another notebook
    globalThis.CSS?.highlights?.delete(NAME);
    listening.abort();
    notes.remove();
    notes = undefined;
  };
  /** @param {any} cell @param {any} change */
  const changed = (cell, change) => {
    if (!change.sourceChange) return;
    clearTimeout(pause);
    clear();
    const source = cell.getSource();
    if (WITH_SPEC.test(source)) pause = setTimeout(() => ask(source), PAUSE_MS);
  };
  /** @type {Set<any>} */
  const watched = new Set();
  const watchAll = () => {
    const { cells } = context.model;
    for (let at = 0; at < cells.length; at++) {
      const cell = cells.get(at).sharedModel;
      if (watched.has(cell)) continue;
      watched.add(cell);
      cell.changed.connect(changed);
    }
  };
  context.model.cells.changed?.connect(watchAll);
  watchAll();
  return {
    /** @param {string} source @param {CellProblem[]} problems */
    show: (source, problems) => {
      const editor = focusedEditor(source);
      if (!editor) return; // it was typed in another page, or has changed since
      clear();
      if (problems.length === 0) return;
      notes = draw(editor, problems.slice(0, MOST_SHOWN));
      // Whoever goes on to another cell is done with this one: running it tells the rest. Where the
      // browser's window loses the focus, the editor stays the active element.
      const left = () => document.activeElement !== editor && clear();
      listening = new AbortController();
      editor.addEventListener("focusout", left, { signal: listening.signal });
    },
    end: () => {
      clearTimeout(pause);
      clear();
      context.model.cells.changed?.disconnect(watchAll);
      for (const cell of watched) cell.changed.disconnect(changed);
    },
  };
}

/**
 * Return the editor that somebody types in, if it still has this text.
 * @param {string} source
 */
function focusedEditor(source) {
  const editor = document.activeElement?.closest(".jp-CodeCell .cm-content");
  const text = [...(editor?.querySelectorAll(".cm-line") ?? [])].map((line) => line.textContent);
  return text.join("\n") === source ? /** @type {HTMLElement} */ (editor) : undefined;
}

/**
 * @param {HTMLElement} editor
 * @param {CellProblem[]} problems
 */
function draw(editor, problems) {
  const lines = [...editor.querySelectorAll(".cm-line")];
  const found = problems.flatMap((problem) => {
    const line = lines[problem.line - 1];
    return line ? [{ line, range: wordRange(line, problem), message: problem.message }] : [];
  });
  underline(found.map(({ range }) => range));
  const frame = /** @type {HTMLElement} */ (editor.closest(".cm-editor"));
  const notes = document.createElement("div");
  notes.setAttribute("role", "status");
  const edge = frame.getBoundingClientRect();
  for (const line of new Set(found.map((one) => one.line))) {
    const text = document.createRange();
    text.selectNodeContents(line);
    const box = text.getBoundingClientRect();
    const note = document.createElement("div");
    note.className = NAME;
    note.textContent = found.filter((one) => one.line === line).map((one) => one.message).join("; ");
    note.title = note.textContent;
    const room = Math.max(edge.right - box.right, LEAST_ROOM);
    Object.assign(note.style, NOTE_STYLE, {
      left: `${edge.width - Math.min(room, edge.width)}px`,
      top: `${box.top - edge.top}px`,
      maxWidth: `${room}px`,
    });
    notes.append(note);
  }
  frame.append(notes);
  return notes;
}

/** @param {Range[]} ranges */
function underline(ranges) {
  if (!globalThis.CSS?.highlights || typeof Highlight === "undefined") return;
  if (!document.getElementById(NAME)) {
    const style = document.createElement("style");
    style.id = NAME;
    style.textContent = `::highlight(${NAME}) { ${UNDERLINE} }`;
    document.head.append(style);
  }
  CSS.highlights.set(NAME, new Highlight(...ranges));
}

/**
 * Return the range of a word in its line; the line's last sign where something is missing behind it.
 * @param {Element} line
 * @param {CellProblem} problem
 */
function wordRange(line, { column, length }) {
  // Python counts a sign such as an emoji as one, and a string here as two.
  const signs = [...(line.textContent ?? "")];
  const units = (/** @type {number} */ count) => signs.slice(0, count).join("").length;
  const start = Math.max(0, Math.min(column - 1, signs.length - 1));
  const range = document.createRange();
  range.setStart(...pointAt(line, units(start)));
  range.setEnd(...pointAt(line, units(start + Math.max(length, 1))));
  return range;
}

/**
 * Return the text node of a line and the offset in it for a column from 0.
 * @param {Element} line
 * @param {number} column in units of a string
 * @returns {[Node, number]}
 */
function pointAt(line, column) {
  const walker = document.createTreeWalker(line, NodeFilter.SHOW_TEXT);
  let left = column;
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const size = node.textContent?.length ?? 0;
    if (left <= size) return [node, left];
    left -= size;
  }
  return [line, 0];
}
