// In the outer frame: unpacks what is to be shown, puts it into an inner frame, and passes its
// height on.
//
// There are two frames because the policy of the outer one forbids the inner one to navigate: a
// page from elsewhere would not have our policy.

/**
 * @param {string} drawing the script of the inner frame
 * @param {string} stillPolicy the policy where nothing of the output may run
 */
export function relayFrame(drawing, stillPolicy) {
  const inner = document.createElement("iframe");
  inner.setAttribute("sandbox", "allow-scripts");
  inner.style.cssText = "display: block; width: 100%; border: 0; height: 100vh";
  document.documentElement.style.overflow = "hidden";
  document.body.style.margin = "0";
  window.addEventListener("message", async ({ source, data }) => {
    if (source === window.parent && data.payload) {
      const task = { ...data, ...JSON.parse(await unpack(data.payload)), payload: "" };
      task.library = data.library ? await unpack(data.library) : "";
      const json = JSON.stringify(task).replaceAll("<", "\\u003c");
      const isStill = task.viewer === "still";
      inner.srcdoc =
        '<!doctype html><meta charset="utf-8">' +
        (isStill ? `<meta http-equiv="Content-Security-Policy" content="${stillPolicy}">` : "") +
        `<body><script type="application/json">${json}<\/script><script>${drawing}<\/script>`;
      document.body.replaceChildren(inner);
    } else if (source === window.parent) inner.contentWindow?.postMessage(data, "*");
    else if (source !== null && source === inner.contentWindow) {
      if (data === "failed" || Number.isFinite(data)) window.parent.postMessage(data, "*");
    }
  });
  window.parent.postMessage("ready", "*");
}

/**
 * @param {string} packed base64 of gzip
 * @returns {Promise<string>}
 */
async function unpack(packed) {
  const bytes = Uint8Array.from(atob(packed), (one) => one.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}
