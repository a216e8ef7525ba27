// What is wrong in a cell, shown while it is typed: each word underlined, and what to write instead
// at the end of its line. No line of the editor is changed: what is shown lies over them, and is
// drawn anew after each change, and where the editor draws other lines of a long cell.

import { drawnLines } from "./drawn_lines.js";

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

// Not `hidden`, which would take it from screen readers and have it said again later.
const UNSEEN = { left: "0", top: "0", maxWidth: "1px", clipPath: "inset(50%)" };

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
  /** @type {any} */
  let typed;
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
    typed = cell;
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
      // It was typed in another page, or has changed since, maybe in a line that is not drawn.
      if (!editor || typed?.getSource() !== source) return;
      clear();
      if (problems.length === 0) return;
      const shown = makeNotes(problems.slice(0, MOST_SHOWN));
      notes = shown.element;
      const place = () => shown.place(editor, drawnLines(editor, source));
      place();
      /** @type {HTMLElement} */ (editor.closest(".cm-editor")).append(notes);
      const scrolled = new MutationObserver(place);
      scrolled.observe(editor, { childList: true });
      // Whoever goes on to another cell is done with this one: running it tells the rest. Where the
      // browser's window loses the focus, the editor stays the active element.
      const left = () => document.activeElement !== editor && clear();
      listening = new AbortController();
      editor.addEventListener("focusout", left, { signal: listening.signal });
      listening.signal.addEventListener("abort", () => scrolled.disconnect());
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
  return editor instanceof HTMLElement && drawnLines(editor, source) ? editor : undefined;
}

/**
 * Make a note for each line with problems. All are said to a screen reader at once; only those of
 * lines that the editor has drawn are seen, and they are told nothing again when the cell scrolls.
 * @param {CellProblem[]} problems
 */
function makeNotes(problems) {
  const element = document.createElement("div");
  element.setAttribute("role", "status");
  /** @type {Map<number, HTMLElement>} */
  const notes = new Map();
  for (const number of new Set(problems.map((one) => one.line))) {
    const note = document.createElement("div");
    note.className = NAME;
    const here = problems.filter((one) => one.line === number);
    note.textContent = here.map((one) => one.message).join("; ");
    note.title = note.textContent;
    notes.set(number, note);
    element.append(note);
  }
  return {
    element,
    /**
     * @param {HTMLElement} editor
     * @param {Map<number, Element> | undefined} lines
     */
    place(editor, lines) {
      underline(
        problems.flatMap((problem) => {
          const line = lines?.get(problem.line);
          return line ? [wordRange(line, problem)] : [];
        }),
      );
      const frame = /** @type {HTMLElement} */ (editor.closest(".cm-editor"));
      const edge = frame.getBoundingClientRect();
      for (const [number, note] of notes) {
        const line = lines?.get(number);
        Object.assign(note.style, NOTE_STYLE, line ? besideLine(line, edge) : UNSEEN);
      }
    },
  };
}

/**
 * Return where a note stands: at the end of its line, or over that where it has no room.
 * @param {Element} line
 * @param {DOMRect} edge that of the editor
 */
function besideLine(line, edge) {
  const text = document.createRange();
  text.selectNodeContents(line);
  const box = text.getBoundingClientRect();
  const room = Math.max(edge.right - box.right, LEAST_ROOM);
  return {
    left: `${edge.width - Math.min(room, edge.width)}px`,
    top: `${box.top - edge.top}px`,
    maxWidth: `${room}px`,
    clipPath: "none",
  };
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
