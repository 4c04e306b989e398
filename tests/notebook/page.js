// What the tests ask of a JupyterLab page: everything is under window.tests.
(() => {
  const MIME = "application/vnd.jupyter.widget-view+json";
  const t = (window.tests = { longTasks: [], sent: [], places: [], kernelErrors: [] });
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) t.longTasks.push([entry.startTime, entry.duration]);
  }).observe({ type: "longtask", buffered: true });

  // Every custom message that a widget sends to the kernel, by its question; of steps, the places.
  const send = WebSocket.prototype.send;
  WebSocket.prototype.send = function (data) {
    try {
      const text = typeof data === "string" ? data : new TextDecoder().decode(data);
      const ask = /"ask": ?"(\w+)"/.exec(text);
      if (ask && text.includes("comm_msg")) {
        t.sent.push(ask[1]);
        const place = /"args": ?\{"pass": ?(\d+), ?"k": ?(\d+)/.exec(text);
        if (ask[1] === "step" && place) t.places.push(`${place[1]}:${place[2]}`);
      }
    } catch {}
    return send.call(this, data);
  };

  t.panel = () => {
    const app = window.jupyterapp;
    if (!app) return null;
    const all = [...app.shell.widgets("main")].filter((w) => w.sessionContext && w.content?.widgets);
    const panel = all.find((w) => w === app.shell.currentWidget) ?? all[0] ?? null;
    if (panel && t.hooked !== panel) {
      t.hooked = panel;
      panel.sessionContext.iopubMessage.connect((_, message) => {
        const parent = message.parent_header?.msg_type;
        if (message.header.msg_type === "error" && parent !== "execute_request")
          t.kernelErrors.push(message.content.evalue);
      });
    }
    return panel;
  };
  t.kernel = () => t.panel()?.sessionContext.session?.kernel ?? null;
  t.status = () => (t.kernel() ? `${t.kernel().status}/${t.kernel().connectionStatus}` : "none");
  t.run = async (index) => {
    const notebook = t.panel().content;
    notebook.activeCellIndex = index;
    notebook.deselectAll();
    return (await window.jupyterapp.commands.execute("notebook:run-cell")) !== false;
  };
  t.setCell = (index, source) => t.panel().content.widgets[index].model.sharedModel.setSource(source);
  t.python = async (code) => {
    const future = t.kernel().requestExecute({ code, store_history: false });
    let out = "";
    let error = null;
    future.onIOPub = (message) => {
      const { msg_type: type } = message.header;
      if (type === "stream") out += message.content.text;
      if (type === "execute_result") out += message.content.data["text/plain"];
      if (type === "error") error = `${message.content.ename}: ${message.content.evalue}`;
    };
    await future.done;
    return { out: out.trimEnd(), error };
  };
  // Ends the kernel and closes what is open, so that another notebook can be opened in this page.
  t.leave = async () => {
    const { shell } = window.jupyterapp;
    await t.panel()?.sessionContext.shutdown();
    for (const widget of [...shell.widgets("main")]) {
      if (widget.context) widget.context.model.dirty = false; // else it would ask whether to save
      widget.close();
    }
    for (let tries = 0; t.panel() && tries < 100; tries++) await new Promise((go) => setTimeout(go, 20));
    if (t.panel()) throw new Error("the notebook did not close");
    for (const list of [t.longTasks, t.sent, t.places, t.kernelErrors]) list.length = 0;
    t.hooked = null;
    scrollTo(0, 0);
  };
  t.outputs = (index) => t.panel().content.widgets[index].model.outputs?.toJSON() ?? [];
  t.widgets = () => t.panel().node.querySelectorAll(".tinylab").length;
  t.hasWidget = (index) => t.outputs(index).some((output) => output.data && MIME in output.data);
})();
