// In the inner frame: draws one output with the library of its viewer.
//
// This is the only script that the frame's policy lets start. So whatever else runs here was
// started by it, after the connections that no policy covers were removed, in frames within too.

const UNCOVERED = /^(webkit|moz)?RTC|Socket|Transport/;
const LEADING_OUT = "meta, link, base, iframe, frame, object, embed";
const SCROLLBAR = 16;

/** @typedef {{ color: string, background: string, fontFamily: string, fontSize: string,
 *   isDark: boolean }} Colors */

/** Draw the output that stands in the script before this one. */
export function drawOutput() {
  for (const name of Object.getOwnPropertyNames(window))
    if (UNCOVERED.test(name)) Reflect.deleteProperty(window, name);
  const own = document.currentScript;
  const given = own?.previousElementSibling;
  const { viewer, page, library, colors } = JSON.parse(given?.textContent ?? "");
  given?.remove();
  own?.remove();
  document.body.style.cssText = "margin: 0; display: flow-root";
  document.documentElement.style.overflowY = "hidden";
  paint(colors);
  window.addEventListener("message", ({ source, data }) => {
    if (source === window.parent && data.colors) paint(data.colors);
  });
  let wasDrawn = false;
  const report = () => {
    wasDrawn ||= isDrawn();
    if (!wasDrawn) return;
    const { scrollWidth, clientWidth } = document.documentElement;
    const { height } = document.documentElement.getBoundingClientRect();
    const bar = scrollWidth > clientWidth ? SCROLLBAR : 0;
    window.parent.postMessage(Math.ceil(height) + bar, "*");
  };
  /** @param {unknown} error */
  const fail = (error) => {
    console.error(error);
    window.parent.postMessage("failed", "*");
  };
  try {
    if (library) run(library);
    Promise.resolve(VIEWERS[viewer]?.(page, colors)).then(report, fail);
    new ResizeObserver(report).observe(document.documentElement);
  } catch (error) {
    fail(error);
  }
}

/** @type {Record<string, (page: string, colors: Colors) => unknown>} */
const VIEWERS = {
  still: insert,
  html: showPage,
  plotly: (page) => {
    const { data, layout, config, frames } = JSON.parse(page);
    const place = newPlace();
    const library = /** @type {any} */ (window).Plotly;
    return library
      .newPlot(place, data, layout, { responsive: true, ...config })
      .then(() => frames?.length && library.addFrames(place, frames));
  },
  vega: (page, { isDark }) => {
    const { mode, spec } = JSON.parse(page);
    const options = isDark ? { theme: "dark", config: { background: "transparent" } } : {};
    const embed = /** @type {any} */ (window).vegaEmbed;
    return embed(newPlace(), spec, { mode, actions: false, ...options });
  },
  bokeh: (page) => {
    for (const [, roots] of page.matchAll(/"roots":\s*(\{[^{}]*\})/g))
      for (const id of Object.values(JSON.parse(roots ?? ""))) newPlace().id = String(id);
    run(page);
  },
};

/**
 * Put HTML into the frame, without what would only lead out of it or stay empty: the policy refuses
 * to go there, but Chromium has connected to the server by then.
 *
 * @param {string} page
 */
function insert(page) {
  const read = new DOMParser().parseFromString(page, "text/html");
  for (const element of read.querySelectorAll(LEADING_OUT)) element.remove();
  document.body.append(...read.head.childNodes, ...read.body.childNodes);
}

/** @param {string} code */
function run(code) {
  (0, eval)(code);
}

function newPlace() {
  return document.body.appendChild(document.createElement("div"));
}

/**
 * Show HTML and run its scripts and handlers, which the browser does not start by itself here.
 *
 * @param {string} page
 */
function showPage(page) {
  insert(page);
  /** @type {Element | null} */
  let current = null;
  Object.defineProperty(document, "currentScript", { get: () => current, configurable: true });
  for (const element of document.body.querySelectorAll("*"))
    for (const { name, value } of element.attributes)
      if (name.startsWith("on"))
        attempt(() => {
          const code = `with (document) { with (this) { ${value}\n} }`;
          /** @type {any} */ (element)[name] = new Function("event", code);
        });
  for (const script of document.body.querySelectorAll("script")) {
    if (script.src || !/^$|javascript$/.test(script.type)) continue;
    current = script;
    attempt(() => run(script.text));
  }
  current = null;
}

/** @param {() => void} act */
function attempt(act) {
  try {
    act();
  } catch (error) {
    console.error(error);
  }
}

/** Whether anything here has an area: text, or an element that may lie outside the flow. */
function isDrawn() {
  const all = [document.documentElement, ...document.body.querySelectorAll("*")];
  return all.some((element) => {
    const { width, height } = element.getBoundingClientRect();
    return width > 0 && height > 0;
  });
}

/** @param {Colors} colors */
function paint({ color, background, fontFamily, fontSize, isDark }) {
  const scheme = isDark ? "dark" : "light";
  Object.assign(document.documentElement.style, {
    color, background, fontFamily, fontSize, colorScheme: scheme,
  });
}
