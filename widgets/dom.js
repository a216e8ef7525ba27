// Helpers that build and update the elements of a panel.

import { localTime, localTimes, splitAddress, splitInstant } from "./format.js";

/** @typedef {import("./types").Look} Look */

/**
 * Make an element. Texts among the children are never parsed as markup, and their instants are in
 * the reader's own zone.
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Record<string, string | number | boolean>} [attributes]
 * @param {(Node | string)[]} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) element.setAttribute(name, "");
    else if (value !== false) element.setAttribute(name, String(value));
  }
  for (const child of children) element.append(...(typeof child === "string" ? timed(child) : [child]));
  return element;
}

/**
 * Return the nodes of a line, with a link where it begins with the address of a tunnel, and its
 * instants in the reader's own zone.
 * @param {string} line
 * @returns {(Node | string)[]}
 */
export function linked(line) {
  const [address, rest] = splitAddress(line);
  return address
    ? [
        make("a", { href: address, target: "_blank", rel: "noopener noreferrer" }, address),
        ...timed(rest),
      ]
    : timed(line);
}

/**
 * Return the nodes of a text, with its instants in the reader's own zone.
 * @param {string} text
 * @returns {(Node | string)[]}
 */
function timed(text) {
  const [before, iso, rest] = splitInstant(text);
  if (!iso) return [before];
  const time = document.createElement("time");
  time.dateTime = iso;
  time.textContent = localTime(iso);
  return [before, time, ...timed(rest)];
}

/** @type {WeakMap<Element, string>} */
const TEXTS = new WeakMap();

/**
 * Set a text only where it differs, so that selections and screen readers are not disturbed.
 * @param {Element} element
 * @param {string} text
 */
export function setText(element, text) {
  if (TEXTS.get(element) === text) return;
  TEXTS.set(element, text);
  element.replaceChildren(...timed(text));
}

/**
 * As `setText`, for what a machine wrote: its instants stay as they are.
 * @param {Element} element
 * @param {string} text
 */
export function setVerbatim(element, text) {
  if (TEXTS.get(element) === text) return;
  TEXTS.set(element, text);
  element.textContent = text;
}

/**
 * Set what is shown while the mouse rests on an element.
 * @param {HTMLElement} element
 * @param {string} text
 */
export function setTitle(element, text) {
  element.title = localTimes(text);
}

const RING =
  '<circle cx="6" cy="6" r="4.25" fill="none" stroke="currentColor" stroke-width="1.5"/>';
const STROKE = 'stroke="currentColor" stroke-width="2" stroke-linecap="round"';
const SHAPES = {
  ring: RING,
  half: `${RING}<path d="M6 1.75a4.25 4.25 0 0 1 0 8.5z"/>`,
  disc: '<circle cx="6" cy="6" r="5"/>',
  cross: `<path d="M2.5 2.5l7 7m0-7l-7 7" ${STROKE}/>`,
  square: '<rect x="2" y="2" width="8" height="8" rx="1"/>',
  alert: '<path d="M6 1.2l5.2 9.4H.8z"/>',
  dash: '<path d="M2 6h8" stroke="currentColor" stroke-width="2" stroke-linecap="round"/>',
};

/** A state as mark and words; `show` changes it. */
export function makeBadge() {
  const mark = make("span", { class: "nbprov-mark", "aria-hidden": "true" });
  const words = make("span");
  const element = make("span", { class: "nbprov-badge" }, mark, words);
  let shown = "";
  return {
    element,
    /** @param {Look} look */
    show(look) {
      setText(words, look.words);
      element.dataset.tone = look.tone;
      if (shown === look.shape) return;
      shown = look.shape;
      const names = `nbprov-shape nbprov-shape-${look.shape}`;
      const open = `<svg viewBox="0 0 12 12" fill="currentColor" class="${names}">`;
      mark.innerHTML = `${open}${SHAPES[look.shape]}</svg>`;
    },
  };
}

/**
 * Make the outermost element of a panel, and hide the panel's static form.
 *
 * A style element hides the static form, also where that is redrawn later. Without its kernel the
 * panel disappears together with the style, and the static form is shown again.
 *
 * Plain keys pressed inside do not reach the notebook, where they would move and insert cells.
 * JupyterLab's own attribute for this is not enough, because some of its shortcuts match the
 * focused element before they reach the attribute.
 * @param {import("@anywidget/types").AnyModel<import("./types").Traits<any>>} model
 * @param {HTMLElement} host
 * @param {string} label
 * @param {AbortSignal} signal
 */
export function makeRoot(model, host, label, signal) {
  const root = make("section", {
    class: "nbprov-root",
    "data-lm-suppress-shortcuts": "true",
    "aria-label": label,
  });
  const form = `[data-nbprov="${model.get("anchor")}"]`;
  const cover = make(
    "style",
    {},
    `:is(${form}, .jp-OutputArea-child:has(${form})) { display: none }`,
  );
  host.replaceChildren(cover, root);
  const uncover = () => {
    cover.remove();
    root.hidden = true;
  };
  model.on("comm_live_update", uncover);
  signal.addEventListener("abort", () => model.off("comm_live_update", uncover));
  root.addEventListener(
    "keydown",
    (event) => {
      if (event.key === "Escape") leave(root);
      if (!event.ctrlKey && !event.metaKey && !event.altKey) event.stopPropagation();
    },
    { signal },
  );
  return root;
}

/** The one line that screen readers announce. */
export function makeStatus() {
  return make("div", { class: "nbprov-status", role: "status", "aria-live": "polite" });
}

/**
 * Return the keyboard focus to the notebook.
 * @param {HTMLElement} root
 */
export function leave(root) {
  const cell = root.closest(".jp-Cell");
  if (cell instanceof HTMLElement && cell.tabIndex >= 0) cell.focus();
  else if (document.activeElement instanceof HTMLElement) document.activeElement.blur();
}

/**
 * Change something, and keep the keyboard's focus in the panel where the button that had it is gone.
 * It goes to no other button, which a second Enter would press.
 * @param {HTMLElement} inside
 * @param {() => void} change
 */
export function keepFocus(inside, change) {
  const focused = document.activeElement;
  const root = inside.closest(".nbprov-root");
  const isOurs = inside.contains(focused);
  change();
  if (!isOurs || !(focused instanceof HTMLElement) || !(root instanceof HTMLElement)) return;
  if (focused.isConnected && focused.checkVisibility() && !focused.matches(":disabled")) return;
  // Only for now: a click on the panel's text must not take the focus from the cell.
  root.tabIndex = -1;
  root.focus({ preventScroll: true });
  root.addEventListener("blur", () => root.removeAttribute("tabindex"), { once: true });
}

/**
 * Update children to match a list, by key; the elements of items that stay keep their focus.
 * @template T
 * @template {{ elements: HTMLElement[] }} V
 * @param {Element} parent
 * @param {Map<string, V>} shown
 * @param {readonly T[]} items
 * @param {(item: T) => string} keyOf
 * @param {(item: T) => V} add
 */
export function patchList(parent, shown, items, keyOf, add) {
  const wanted = new Set(items.map(keyOf));
  for (const [key, view] of shown) {
    if (wanted.has(key)) continue;
    for (const element of view.elements) element.remove();
    shown.delete(key);
  }
  let before = parent.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    let view = shown.get(key);
    if (!view) {
      view = add(item);
      shown.set(key, view);
    }
    for (const element of view.elements) {
      if (element === before) before = before.nextElementSibling;
      else parent.insertBefore(element, before);
    }
  }
}

/**
 * Make a button that shows and hides what belongs to it, such as a row of a table.
 * @param {string} words
 * @param {HTMLElement} shown hidden at first
 * @param {AbortSignal} signal
 * @param {() => void} onOpen
 */
export function makeToggle(words, shown, signal, onOpen) {
  const button = make(
    "button",
    { type: "button", class: "nbprov-toggle nbprov-more", "aria-expanded": "false", hidden: true },
    words,
  );
  shown.hidden = true;
  const update = () => button.setAttribute("aria-expanded", String(!shown.hidden));
  button.addEventListener(
    "click",
    () => {
      shown.hidden = !shown.hidden;
      update();
      if (!shown.hidden) onOpen();
    },
    { signal },
  );
  return {
    button,
    /** @param {boolean} can whether there is anything to show */
    allow(can) {
      button.hidden = !can;
      shown.hidden ||= !can;
      update();
    },
  };
}
