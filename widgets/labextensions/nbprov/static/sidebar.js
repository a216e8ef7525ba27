// The dashboard in JupyterLab's sidebar: what runs, what it costs, and the buttons that end it,
// whichever notebook is open.
//
// This is a federated extension written by hand, since it needs so little of one: JupyterLab calls
// `init` with the modules that it shares and `get` for the plugin. The dashboard itself comes from a
// kernel of the sidebar's own, as in a notebook: its widget sends code and state, and what stands in
// for JupyterLab's widget manager here is `PanelModel`.

(() => {
  const ID = "nbprov-sidebar";
  const COMMAND = "nbprov:show-dashboard";
  const LABEL = "Machines and their costs";
  const DASHBOARD = "%load_ext nbprov\n%nbprov dashboard";
  const WIDGETS = "jupyter.widget";
  const ENDS = ["dead", "terminating", "restarting", "autorestarting"];
  const LEAST_WIDTH = "270px";
  const ICON = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16" width="16">
    <g class="jp-icon3" fill="none" stroke="#616161" stroke-width="1.3">
      <rect x="4" y="4" width="8" height="8" rx="1"/>
      <path d="M6 1.5V4M10 1.5V4M6 12v2.5M10 12v2.5M1.5 6H4M1.5 10H4M12 6h2.5M12 10h2.5"/>
    </g></svg>`;

  /** The modules that JupyterLab shares, by name and version. @type {any} */
  let modules;

  /** @param {string} name */
  const shared = async (name) => {
    const versions = Object.values(modules[name] ?? {});
    // Another extension may bring a version of its own, whose tokens JupyterLab does not know.
    const version = versions.find((one) => one.loaded) ?? versions[0];
    if (!version) throw new Error(`JupyterLab shares no ${name}`);
    return (await version.get())();
  };

  /** The model of one widget, as anywidget gives it to a panel's code. */
  class PanelModel {
    /** @param {any} comm @param {Record<string, unknown>} state */
    constructor(comm, state) {
      this._comm = comm;
      this._state = state;
      /** @type {Map<string, Set<Function>>} */
      this._handlers = new Map();
      comm.onMsg = (/** @type {any} */ message) => this._receive(message);
    }

    /** @param {string} name */
    get(name) {
      return this._state[name];
    }

    /** @param {string} event @param {Function} handler */
    on(event, handler) {
      if (!this._handlers.has(event)) this._handlers.set(event, new Set());
      this._handlers.get(event)?.add(handler);
    }

    /** @param {string} event @param {Function} handler */
    off(event, handler) {
      this._handlers.get(event)?.delete(handler);
    }

    /** @param {unknown} content @param {unknown} _callbacks @param {ArrayBuffer[]} buffers */
    send(content, _callbacks, buffers) {
      this._comm.send({ method: "custom", content }, {}, buffers);
    }

    /** @param {any} message */
    _receive({ content: { data }, buffers }) {
      if (data.method === "custom") return this._tell("msg:custom", data.content, buffers ?? []);
      if (data.method !== "update") return;
      Object.assign(this._state, data.state);
      for (const name of Object.keys(data.state)) this._tell(`change:${name}`);
    }

    /** @param {string} event @param {unknown[]} told */
    _tell(event, ...told) {
      for (const handler of this._handlers.get(event) ?? []) handler(...told);
    }
  }

  /**
   * Show the dashboard of a kernel in an element.
   * @param {any} app JupyterLab
   * @param {HTMLElement} container
   */
  async function showDashboard(app, container) {
    const { session, isNew } = await openSession(app);
    const { kernel } = session;
    const restart = () => showDashboardOrError(app, container);
    let isDrawn = false;
    let clean = () => {};
    // A second page has its dashboard from the same kernel, which then keeps that one alone up to
    // date: all pages show the latest.
    kernel.registerCommTarget(WIDGETS, (/** @type {any} */ comm, /** @type {any} */ opened) => {
      const { state } = opened.content.data;
      // The kernel opens other widgets, too: layouts, and the link to a notebook's pages.
      if (!state?._esm || !("anchor" in state)) return;
      isDrawn = true;
      clean();
      const drawn = draw(new PanelModel(comm, state), container);
      drawn.catch((error) => container.replaceChildren(paragraph(String(error)), button(restart)));
      clean = () => drawn.then((end) => end?.());
    });
    const { content } = await kernel.requestExecute({ code: DASHBOARD, store_history: false }).done;
    if (content.status !== "ok") {
      const said = `${kernel.name} says: ${content.ename}: ${content.evalue}`;
      // A kernel that was found may be following a machine to its end.
      if (isNew) await session.shutdown();
      else session.dispose();
      throw new Error(`${said}. If nbprov is not installed there: pip install nbprov`);
    }
    if (!isDrawn) {
      session.dispose();
      throw new Error(`${kernel.name} shows no widgets. There: pip install ipywidgets anywidget`);
    }
    session.disposed.connect(() => {
      clean();
      container.replaceChildren(paragraph("The kernel of this dashboard has ended."), button(restart));
    });
    // As long as this connection is there, another one to the same kernel is told of no comm.
    session.statusChanged.connect((/** @type {any} */ _, /** @type {string} */ status) => {
      if (ENDS.includes(status)) session.dispose();
    });
  }

  /**
   * Run a panel's code in an element, and return what ends it.
   * @param {PanelModel} model
   * @param {HTMLElement} container
   */
  async function draw(model, container) {
    const code = /** @type {string} */ (model.get("_esm"));
    const url = URL.createObjectURL(new Blob([code], { type: "text/javascript" }));
    const { default: panel } = await import(url);
    URL.revokeObjectURL(url);
    const el = document.createElement("div");
    container.replaceChildren(el);
    return panel.render({ model, el });
  }

  /**
   * As `showDashboard`; what fails is said in its place.
   * @param {any} app
   * @param {HTMLElement} container
   */
  async function showDashboardOrError(app, container) {
    container.replaceChildren(paragraph("Starting a kernel…"));
    try {
      await showDashboard(app, container);
    } catch (error) {
      const { message } = /** @type {Error} */ (error);
      const restart = () => showDashboardOrError(app, container);
      container.replaceChildren(paragraph(`There is no dashboard: ${message}`), button(restart));
    }
  }

  /**
   * Return the sidebar's session; a page that was reloaded finds the one it had. A new one has the
   * kind of kernel of the notebook in front, since nbprov may be installed for that one alone.
   * @param {any} app
   */
  async function openSession({ serviceManager, shell }) {
    const { sessions, kernelspecs } = serviceManager;
    // A console that somebody opened on this kernel would have its comms otherwise.
    const kernelConnectionOptions = { handleComms: true };
    await Promise.all([sessions.ready, kernelspecs.ready]);
    await sessions.refreshRunning();
    for (const model of sessions.running())
      if (model.path === ID && model.type === "console")
        return { session: sessions.connectTo({ model, kernelConnectionOptions }), isNew: false };
    const name =
      shell.currentWidget?.sessionContext?.session?.kernel?.name ?? kernelspecs.specs.default;
    const wanted = { path: ID, name: "nbprov", type: "console", kernel: { name } };
    const session = await sessions.startNew(wanted, { kernelConnectionOptions });
    return { session, isNew: true };
  }

  /** @param {string} text */
  function paragraph(text) {
    const made = document.createElement("p");
    made.textContent = text;
    return made;
  }

  /** @param {() => void} press */
  function button(press) {
    const made = document.createElement("button");
    made.textContent = "Start again";
    made.className = "jp-mod-styled";
    made.addEventListener("click", press);
    return made;
  }

  async function makePlugin() {
    const { Widget } = await shared("@lumino/widgets");
    const { LabIcon } = await shared("@jupyterlab/ui-components");
    const { ICommandPalette } = await shared("@jupyterlab/apputils");
    const { ILayoutRestorer } = await shared("@jupyterlab/application");

    class Sidebar extends Widget {
      /** @param {any} app */
      constructor(app) {
        super();
        this.id = ID;
        this.title.caption = LABEL;
        this.title.icon = new LabIcon({ name: "nbprov:machines", svgstr: ICON });
        this.node.setAttribute("role", "region");
        this.node.setAttribute("aria-label", LABEL);
        Object.assign(this.node.style, {
          overflow: "auto",
          padding: "0 8px",
          minWidth: LEAST_WIDTH,
        });
        this._app = app;
        this._wasOpened = false;
      }

      // A kernel is started for those alone who open the sidebar. It stays, because a machine that is
      // being ended must be followed to its end.
      onAfterShow() {
        if (this._wasOpened) return;
        this._wasOpened = true;
        showDashboardOrError(this._app, this.node);
      }
    }

    return {
      id: "nbprov:sidebar",
      description: "Shows nbprov's dashboard in the sidebar.",
      autoStart: true,
      optional: [ICommandPalette, ILayoutRestorer],
      /** @param {any} app @param {any} palette @param {any} restorer */
      activate: (app, palette, restorer) => {
        const sidebar = new Sidebar(app);
        app.shell.add(sidebar, "left", { rank: 900 });
        app.commands.addCommand(COMMAND, {
          label: LABEL,
          execute: () => app.shell.activateById(ID),
        });
        palette?.addItem({ command: COMMAND, category: "nbprov" });
        restorer?.add(sidebar, ID);
      },
    };
  }

  const extensions = /** @type {any} */ (window);
  extensions._JUPYTERLAB = extensions._JUPYTERLAB || {};
  extensions._JUPYTERLAB.nbprov = {
    /** @param {unknown} scope */
    init: (scope) => {
      modules = scope;
    },
    get: async () => {
      const plugin = await makePlugin();
      return () => ({ __esModule: true, default: plugin });
    },
  };
})();
