// In the notebook's page: makes frames for outputs of machines that the page must not draw itself.
//
// It reads nothing of a frame but its height, and whether it failed.

const HIGHEST_FRAME = 2000;
const LOWEST_FRAME = 18;
const FRAME_START = 150;
/** A figure takes two seconds on an idle computer. What is drawn later is shown then. */
const DRAWING_SECONDS = 10;

/**
 * Make the frames of all outputs that have none yet.
 *
 * @param {string} shell the document of a frame
 */
export function mountFrames(shell) {
  const page = /** @type {{ nbprovLibraries?: Map<string, string> }} */ (window);
  const libraries = (page.nbprovLibraries ??= new Map());
  for (const carrier of document.querySelectorAll("[data-nbprov-library]")) {
    const { nbprovLibrary, code } = /** @type {HTMLElement} */ (carrier).dataset;
    libraries.set(nbprovLibrary ?? "", code ?? "");
  }
  for (const found of document.querySelectorAll("[data-nbprov-frame]:not([data-nbprov-mounted])")) {
    const host = /** @type {HTMLElement} */ (found);
    host.dataset.nbprovMounted = "";
    mountFrame(host, shell, libraries);
  }
}

/**
 * @param {HTMLElement} host
 * @param {string} shell
 * @param {Map<string, string>} libraries
 */
function mountFrame(host, shell, libraries) {
  const still = /** @type {HTMLElement} */ (host.firstElementChild);
  const line = /** @type {HTMLElement} */ (host.lastElementChild);
  const { nbprovFrame, name, payload, library } = host.dataset;
  /** @param {string} text */
  const stay = (text) => {
    still.hidden = false;
    line.hidden = false;
    line.textContent = text;
  };
  const open = () => {
    const code = library ? libraries.get(library) : "";
    if (code === undefined) {
      stay(`[${name}: its viewer is not in this page; run the cell again]`);
      return;
    }
    line.hidden = true;
    const within = `within ${DRAWING_SECONDS} s`;
    openFrame(host, shell, { payload, library: code }, {
      drawn: () => {
        still.hidden = true;
        line.hidden = true;
      },
      failed: () => stay(`[${name}: it could not be drawn]`),
      empty: () =>
        stay(`[${name}: ${library ? "it could not be drawn" : "nothing was drawn"} ${within}]`),
      stole: () => stay(`[${name}: closed, since it took the keyboard]`),
    });
  };
  if (nbprovFrame === "on") {
    open();
    return;
  }
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = `Show ${name}`;
  button.title = "It runs in a frame that reaches neither this notebook nor the network.";
  button.addEventListener("click", open, { once: true });
  line.replaceChildren(button);
}

/**
 * @param {HTMLElement} host
 * @param {string} shell
 * @param {object} given
 * @param {Record<"drawn" | "failed" | "empty" | "stole", () => void>} tale what is called when;
 *   after `empty` it may still be drawn
 */
function openFrame(host, shell, given, tale) {
  const frame = document.createElement("iframe");
  const ended = new AbortController();
  const { signal } = ended;
  /** @param {object} message */
  const tell = (message) => frame.contentWindow?.postMessage(message, "*");
  const close = () => {
    ended.abort();
    clearTimeout(waiting);
    themes.disconnect();
    frame.remove();
  };
  const themes = new MutationObserver(() => {
    if (frame.isConnected) tell({ colors: colorsAt(host) });
  });
  frame.setAttribute("sandbox", "allow-scripts");
  frame.setAttribute("referrerpolicy", "no-referrer");
  frame.tabIndex = -1;
  frame.title = host.dataset.name ?? "";
  frame.style.cssText = `display: block; width: 100%; border: 0; height: ${FRAME_START}px`;
  frame.srcdoc = shell;
  window.addEventListener("message", ({ source, data }) => {
    if (source === null || source !== frame.contentWindow) return;
    if (data === "ready") tell({ ...given, colors: colorsAt(host) });
    else if (data === "failed") {
      close();
      tale.failed();
    } else if (Number.isFinite(data)) {
      clearTimeout(waiting);
      frame.style.height = `${Math.min(HIGHEST_FRAME, Math.max(LOWEST_FRAME, data))}px`;
      tale.drawn();
    }
  }, { signal });
  guardFocus(host, frame, signal, () => {
    close();
    tale.stole();
  });
  // A library may fail without a word: BokehJS 3 does so with a figure of Bokeh 2. The frame keeps
  // a height, since Chromium draws nothing in one without.
  const waiting = setTimeout(() => {
    frame.style.height = `${LOWEST_FRAME}px`;
    tale.empty();
  }, DRAWING_SECONDS * 1000);
  for (const element of [document.documentElement, document.body])
    themes.observe(element, { attributes: true });
  host.append(frame);
}

/**
 * A script in a frame can take the keyboard at any time. A person enters a frame with the pointer.
 *
 * @param {HTMLElement} host
 * @param {HTMLIFrameElement} frame
 * @param {AbortSignal} signal
 * @param {() => void} onTheft
 */
function guardFocus(host, frame, signal, onTheft) {
  let last = document.activeElement;
  document.addEventListener("focusin", ({ target }) => {
    if (target !== frame) last = /** @type {Element} */ (target);
  }, { signal });
  const look = () => {
    if (signal.aborted || document.activeElement !== frame || host.matches(":hover")) return;
    onTheft();
    if (last instanceof HTMLElement) last.focus();
  };
  // Firefox says only after the event that the frame has the focus.
  window.addEventListener("blur", () => setTimeout(look), { signal });
}

/**
 * Return the colors and the font of a place in the page.
 *
 * @param {Element} place
 */
function colorsAt(place) {
  const { color, fontFamily, fontSize } = getComputedStyle(place);
  let background = "rgb(255, 255, 255)";
  for (let at = /** @type {Element | null} */ (place); at; at = at.parentElement) {
    const own = getComputedStyle(at).backgroundColor;
    if (own !== "transparent" && !/^rgba\(.*, 0\)$/.test(own)) {
      background = own;
      break;
    }
  }
  const [red = 255, green = 255, blue = 255] = (background.match(/[\d.]+/g) ?? []).map(Number);
  const isDark = 0.3 * red + 0.6 * green + 0.1 * blue < 128;
  return { color, background, fontFamily, fontSize, isDark };
}
