// Menus above the price table: a button for each facet, and the choices with their counts.

import { count } from "./format.js";
import { make, setText } from "./dom.js";

/** @typedef {import("./types").Facet} Facet */

// A menu of more choices than this has a box to look for one.
const MANY_CHOICES = 12;

/**
 * Make a button that opens a menu below it. Escape, a click elsewhere and leaving it close it.
 * @param {string} label
 * @param {AbortSignal} signal
 * @param {(menu: HTMLElement) => void} fill called before the menu opens
 */
export function makeMenu(label, signal, fill) {
  const words = make("span", {}, label);
  const button = make(
    "button",
    { type: "button", class: "nbprov-button nbprov-menu-button", "aria-expanded": "false" },
    words,
    make("span", { "aria-hidden": "true" }, " ▾"),
  );
  const menu = make("div", {
    class: "nbprov-menu",
    role: "group",
    "aria-label": label,
    hidden: true,
  });
  const element = make("span", { class: "nbprov-menu-place" }, button, menu);
  /** @param {boolean} isOpen */
  const show = (isOpen) => {
    if (isOpen) fill(menu);
    menu.hidden = !isOpen;
    button.setAttribute("aria-expanded", String(isOpen));
    if (isOpen) menu.querySelector("input")?.focus();
  };
  button.addEventListener("click", () => show(Boolean(menu.hidden)), { signal });
  element.addEventListener(
    "keydown",
    (event) => {
      if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        const stops = [...menu.querySelectorAll("input, button")].filter(
          (stop) => stop instanceof HTMLElement && stop.offsetParent !== null,
        );
        const at = stops.indexOf(/** @type {Element} */ (document.activeElement));
        const next = stops[at + (event.key === "ArrowDown" ? 1 : -1)];
        if (menu.hidden || at < 0 || !(next instanceof HTMLElement)) return;
        next.focus();
      } else if (event.key === "Escape" && !menu.hidden) {
        show(false);
        button.focus();
      } else return;
      event.preventDefault();
      event.stopPropagation();
    },
    { signal },
  );
  element.addEventListener(
    "focusout",
    (event) => {
      if (!(event.relatedTarget instanceof Node && element.contains(event.relatedTarget)))
        show(false);
    },
    { signal },
  );
  // A click on a label or between choices must not take the focus out of the menu.
  menu.addEventListener(
    "pointerdown",
    (event) => !(event.target instanceof HTMLInputElement) && event.preventDefault(),
    { signal },
  );
  return { element, button, words, isOpen: () => !menu.hidden };
}

/**
 * A checkbox with a name and, where it is given, a number.
 * @param {string} name
 * @param {string} number
 * @param {boolean} isOn
 * @param {(isOn: boolean) => void} onChange
 */
export function makeChoice(name, number, isOn, onChange) {
  const box = make("input", { type: "checkbox", checked: isOn });
  box.addEventListener("change", () => onChange(box.checked));
  const figure = make("span", { class: "nbprov-many" }, number);
  return { element: make("label", { class: "nbprov-choice" }, box, name, figure), figure };
}

/**
 * The menus of a table's facets, and the choices that are made.
 * @param {AbortSignal} signal
 * @param {() => void} onChange
 */
export function makeFacetMenus(signal, onChange) {
  const element = make("span", { class: "nbprov-facets" });
  const chips = make("div", { class: "nbprov-chips", hidden: true });
  /** @type {Map<string, Set<string>>} */
  const chosen = new Map();
  /** @type {readonly Facet[]} */
  let facets = [];
  /** @type {Map<string, Uint32Array>} */
  let counts = new Map();
  /** @type {Map<string, HTMLElement>} */
  let figures = new Map();
  /** @type {ReturnType<typeof makeMenu>[]} */
  let menus = [];

  /**
   * @param {Facet} facet
   * @param {string} choice
   * @param {boolean} isOn
   */
  function choose(facet, choice, isOn) {
    const picks = chosen.get(facet.key) ?? new Set();
    if (isOn) picks.add(choice);
    else picks.delete(choice);
    if (picks.size) chosen.set(facet.key, picks);
    else chosen.delete(facet.key);
    showChips();
    onChange();
  }

  function showChips() {
    const all = facets.flatMap((facet) =>
      [...(chosen.get(facet.key) ?? [])].map((choice) => ({ facet, choice })),
    );
    chips.hidden = !all.length;
    chips.replaceChildren(
      ...all.map(({ facet, choice }) => {
        const chip = make(
          "button",
          { type: "button", class: "nbprov-chip", "aria-label": `${facet.label} ${choice}: remove` },
          `${choice} ×`,
        );
        chip.addEventListener("click", () => {
          choose(facet, choice, false);
          focusable()?.focus();
        });
        return chip;
      }),
    );
    facets.forEach((facet, i) => {
      const n = chosen.get(facet.key)?.size ?? 0;
      const menu = menus[i];
      if (menu) setText(menu.words, n ? `${facet.label} (${n})` : facet.label);
    });
  }

  const focusable = () => chips.querySelector("button") ?? menus[0]?.button;

  /**
   * @param {Facet} facet
   * @param {HTMLElement} menu
   */
  function fill(facet, menu) {
    const picks = chosen.get(facet.key);
    const numbers = counts.get(facet.key);
    figures = new Map();
    const lines = facet.choices
      .map((name, i) => ({ name, n: numbers?.[i] ?? 0 }))
      .filter(({ name, n }) => n || picks?.has(name))
      .sort((a, b) => b.n - a.n || a.name.localeCompare(b.name, "en", { numeric: true }))
      .map(({ name, n }) => {
        const line = makeChoice(name, count(n), picks?.has(name) ?? false, (isOn) =>
          choose(facet, name, isOn),
        );
        figures.set(name, line.figure);
        return { name, element: line.element };
      });
    const find = make("input", {
      type: "search",
      class: "nbprov-input",
      placeholder: `find a ${facet.label}`,
      "aria-label": `Find a ${facet.label}`,
    });
    find.hidden = lines.length <= MANY_CHOICES;
    find.addEventListener("input", () => {
      for (const { name, element: line } of lines)
        line.hidden = !name.toLowerCase().includes(find.value.toLowerCase().trim());
    });
    menu.replaceChildren(find, ...lines.map((line) => line.element));
  }

  return {
    element,
    chips,
    chosen,
    /**
     * Show the facets of another table; what was chosen stays where it has it, too.
     * @param {readonly Facet[]} given
     */
    setFacets(given) {
      const isSame =
        given.length === facets.length && given.every((one, i) => one.key === facets[i]?.key);
      facets = given;
      for (const [key, picks] of chosen) {
        const known = facets.find((facet) => facet.key === key)?.choices ?? [];
        for (const pick of picks) if (!known.includes(pick)) picks.delete(pick);
        if (!picks.size) chosen.delete(key);
      }
      if (!isSame) {
        menus = facets.map(({ label }, i) =>
          makeMenu(label, signal, (menu) => {
            const facet = facets[i];
            if (facet) fill(facet, menu);
          }),
        );
        element.replaceChildren(...menus.map((menu) => menu.element));
      }
      showChips();
    },
    /** @param {Map<string, Uint32Array>} given */
    setCounts(given) {
      counts = given;
      const open = menus.findIndex((menu) => menu.isOpen());
      const facet = facets[open];
      facet?.choices.forEach((name, i) => {
        const figure = figures.get(name);
        if (figure) setText(figure, count(counts.get(facet.key)?.[i] ?? 0));
      });
    },
    clear() {
      chosen.clear();
      showChips();
    },
  };
}
