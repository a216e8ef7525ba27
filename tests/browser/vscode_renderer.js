// Runs in a page of JupyterLab, whose library reaches the kernel: it is the one of VS Code's too.
// A frame takes the place of VS Code's webview, and its published package draws the widgets.
async ([name, page, widgets, anywidget]) => {
  const session = await jupyterapp.serviceManager.sessions.startNew({
    path: "vscode", name: "vscode", type: "console", kernel: { name },
  });
  const frame = document.createElement("iframe");
  frame.style = "position: fixed; inset: 0; width: 100%; height: 100%; border: 0; z-index: 9999";
  frame.src = page;
  const loaded = new Promise((done) => frame.addEventListener("load", done, { once: true }));
  document.body.append(frame);
  await loaded;
  const web = frame.contentWindow;
  web.requirejs.config({ paths: { anywidget } });
  (await web.eval(`import(${JSON.stringify(widgets)})`)).activate();
  web.vscIPyWidgets8.load();
  const faults = [];
  const manager = new web.vscIPyWidgets.WidgetManager(
    session.kernel,
    web.document.body,
    {
      widgetsRegisteredInRequireJs: new Set(["anywidget"]),
      loadWidgetScript: async (module) => faults.push(`asked for ${module}`),
      successHandler: () => {},
      errorHandler: (kind, module, _version, error) => faults.push(`${module}.${kind}: ${error}`),
    },
    () => {},
  );
  async function draw(id) {
    const node = web.document.createElement("div");
    web.document.body.append(node);
    const view = await manager.create_view(await manager.get_model(id));
    await manager.display_view(undefined, view, { node });
  }
  window.vscode = {
    faults,
    begin(code) {
      const future = session.kernel.requestExecute({ code });
      future.onIOPub = ({ content }) => {
        const view = content.data?.["application/vnd.jupyter.widget-view+json"];
        if (view) draw(view.model_id).catch((error) => faults.push(String(error)));
        if (content.ename) faults.push(`${content.ename}: ${content.evalue}`);
      };
    },
  };
}
