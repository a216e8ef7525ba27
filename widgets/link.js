// The connection of one view to the kernel: state, table and notices, and polling after silence.

import { decodeTable, renewColumn, takePage } from "./table.js";

/** @typedef {import("./types").ToKernel} ToKernel */

// Colab delivers messages only in reply to one, so a view that is seen polls after this much
// silence. Elsewhere one small message in 5 s is no burden.
const POLL_MS = 5000;

const GONE = "The kernel of this panel has ended: run the cell again.";

/**
 * @template {object} S
 * @param {import("@anywidget/types").AnyModel<import("./types").Traits<S>>} model
 * @param {AbortSignal} signal
 * @param {{
 *   root: Element,
 *   state: (state: S, age: number) => void,
 *   table?: (table: import("./types").Table, version: number) => void,
 *   rows?: () => void,
 *   column?: () => void,
 *   notice: (text: string) => void,
 *   copy?: (text: string, words: string) => void,
 *   console?: (key: string, text: string) => void,
 *   tasks?: (name: string, tasks: import("./types").Task[], problem: string) => void,
 *   output?: (name: string, id: string, text: string) => void,
 *   isLive?: () => boolean,
 *   seen?: () => void,
 * }} on
 */
export function connect(model, signal, on) {
  const view = Math.random().toString(36).slice(2);
  let asked = -1;
  let heard = Date.now();
  let isWaiting = false;
  /** @type {import("./types").Table | undefined} */
  let table;
  let version = -1;

  /**
   * Send a message and return whether it went out. Sending throws once the kernel has ended.
   * @param {ToKernel} message
   */
  const trySend = (message) => {
    try {
      model.send(message);
      return true;
    } catch {
      return false;
    }
  };
  /** @param {ToKernel} message */
  const send = (message) => {
    if (!trySend(message)) on.notice(GONE);
  };
  const changed = () => {
    // Of a state that is cut short for the saved notebook, the whole comes as a message.
    if (model.get("state").is_cut) return;
    heard = Date.now();
    isWaiting = false;
    on.state(model.get("state"), 0);
  };
  /**
   * @param {import("./types").FromKernel<S>} message
   * @param {DataView[]} buffers
   */
  const received = (message, buffers) => {
    if (message.view && message.view !== view) return;
    heard = Date.now();
    isWaiting = false;
    if (message.type === "state") on.state(message.state, message.age);
    else if (message.type === "notice") on.notice(message.text);
    else if (message.type === "copy") on.copy?.(message.text, message.words);
    else if (message.type === "console") on.console?.(message.key, message.text);
    else if (message.type === "tasks") on.tasks?.(message.name, message.tasks, message.problem);
    else if (message.type === "output") on.output?.(message.name, message.id, message.text);
    else if (message.type === "table") {
      table = decodeTable(message.table, buffers, message.end);
      version = message.version;
      on.table?.(table, version);
    } else if (message.type === "rows" && table && message.version === version) {
      takePage(table, message.start, message.end, buffers);
      on.rows?.();
    } else if (message.type === "column" && table && message.version === version) {
      renewColumn(table, message.column, buffers);
      on.column?.();
    }
  };
  const sync = () => {
    // An old kernel answers only after its cell, so only one question is open at a time. A kernel
    // that has ended is asked once.
    if (isWaiting) return;
    isWaiting = true;
    trySend({ type: "sync", view });
  };
  model.on("change:state", changed);
  model.on("msg:custom", received);
  let isInSight = false;
  const isSeen = () => isInSight && document.visibilityState === "visible";
  // Nothing is asked while nobody looks. What was missed, also because the server drops messages
  // when there are too many, is asked for when a person sees the panel again. A state that is cut
  // short is asked for in whole also where it changes no more, since no message brings it then.
  const catchUp = () => {
    if (!isSeen()) return;
    if (model.get("state").is_cut || on.isLive?.()) sync();
    on.seen?.();
  };
  const timer = setInterval(() => {
    if (isSeen() && on.isLive?.() && Date.now() - heard > POLL_MS) sync();
  }, POLL_MS);
  const sight = new IntersectionObserver((entries) => {
    isInSight = entries.at(-1)?.isIntersecting ?? false;
    catchUp();
  });
  sight.observe(on.root);
  document.addEventListener("visibilitychange", catchUp, { signal });
  window.addEventListener("focus", catchUp, { signal });
  signal.addEventListener("abort", () => {
    clearInterval(timer);
    sight.disconnect();
    model.off("change:state", changed);
    model.off("msg:custom", received);
  });
  return {
    view,
    send,
    isSeen,
    /** Return the version of the table that is drawn, while that of the state may be on its way. */
    drawn: () => version,
    /** Tell that a person sees the panel; nothing is said where the kernel has ended. */
    look() {
      trySend({ type: "look" });
    },
    /**
     * Send a message with numbers beside it.
     * @param {ToKernel} message
     * @param {Uint32Array} numbers
     */
    sendNumbers(message, numbers) {
      model.send(message, undefined, [numbers]);
    },
    /**
     * Ask for the table of this version, once.
     * @param {number} version
     */
    want(version) {
      if (asked === version) return;
      asked = version;
      trySend({ type: "ready", view, version });
    },
  };
}
