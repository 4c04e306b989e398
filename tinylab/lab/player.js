// Answers the front end's questions from data in the page, so that a report can be stepped through
// without a kernel. One model per record, with the few methods of a notebook's model.
(async () => {
  const packed = document.getElementById("tinylab-data");
  if (!packed) return;
  const unpack = async (element) => {
    const bytes = Uint8Array.from(atob(element.textContent), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Response(stream).text();
  };
  const records = JSON.parse(await unpack(packed));
  const code = await unpack(document.getElementById("tinylab-code"));
  const address = URL.createObjectURL(new Blob([code], { type: "text/javascript" }));
  const widget = (await import(address)).default;

  const HITS = 200;
  const shapeText = (shape) => (shape && shape.length ? ` (${shape.join(", ")})` : "");

  class Book {
    constructor(data) {
      this.data = data;
      this.nodes = new Map();
      for (const [id, head, shape, lines, ...src] of data.nodes) {
        const [op, label, arg, dtype, kind, tag] = data.heads[head];
        this.nodes.set(id, {
          id, op, label, arg, dtype, kind, tag, src,
          shape: data.shapes[shape], lines: data.lines[lines],
        });
      }
    }
    under(root) {
      const order = [], seen = new Set(), stack = [root];
      while (stack.length) {
        const id = stack.pop();
        if (id < 0) { order.push(~id); continue; }
        if (seen.has(id) || !this.nodes.has(id)) continue;
        seen.add(id);
        stack.push(~id, ...[...this.nodes.get(id).src].reverse());
      }
      return order;
    }
    pass(id) {
      const found = this.data.passes[id];
      if (!found) throw new Error(`the report does not hold pass ${id}`);
      return found;
    }
    state(pass, k) {
      const found = this.pass(pass)[k];
      if (!found) throw new Error(`the report does not hold match ${k} of this pass: it is too large`);
      return found;
    }
    step({ pass, k }) {
      const [root, rule, before, after, elapsed_us] = this.state(pass, k);
      const order = this.under(root);
      const answer = {
        pass, k, total: this.pass(pass).length - 1, rule: null, before: null, after: null,
        full: true, nodes: order.map((id) => this.nodes.get(id)), root, removed: [],
        added: [], gone: [], ancestors: [], more: false, count: order.length,
      };
      if (k > 0 && rule !== undefined) {
        answer.rule = { ...this.data.rules[rule], elapsed_us };
        answer.before = before;
        answer.after = after;
        const earlier = this.pass(pass)[k - 1];
        if (earlier) {
          const had = this.under(earlier[0]);
          const hadSet = new Set(had), hasSet = new Set(order);
          answer.added = order.filter((id) => !hadSet.has(id));
          answer.gone = had.filter((id) => !hasSet.has(id)).map((id) => this.nodes.get(id));
        }
      }
      return answer;
    }
    line(id) {
      const n = this.nodes.get(id);
      const arg = n.arg ? ` [${n.arg}]` : "";
      const dtype = n.dtype === "void" ? "" : ` ${n.dtype}`;
      return `%${id} = ${n.op}(${n.src.map((s) => `%${s}`).join(", ")})${arg}${dtype}${shapeText(n.shape)}`;
    }
    text({ pass, k }) {
      const order = this.under(this.state(pass, k)[0]);
      const earlier = k > 0 ? this.pass(pass)[k - 1] : null;
      const had = new Set(earlier ? this.under(earlier[0]) : order);
      const has = new Set(order);
      const lines = order.map((id) => ({ text: this.line(id), node: id, mark: had.has(id) ? "" : "+" }));
      const went = [...had].filter((id) => !has.has(id)).map((id) => ({ text: this.line(id), mark: "-" }));
      return { lines, diff: [...went, ...lines.filter((l) => l.mark)], more: false };
    }
    search({ query, pass }) {
      const wanted = query.trim().toLowerCase(), hits = [];
      const ids = pass === null || pass === undefined ? Object.keys(this.data.passes).map(Number) : [pass];
      for (const id of wanted ? ids : []) {
        this.pass(id).forEach((state, k) => {
          if (!state || state[1] === undefined) return;
          const rule = this.data.rules[state[1]];
          if (rule.name.toLowerCase().includes(wanted)) {
            hits.push({ pass: id, k, node: state[3], label: rule.name });
          }
        });
        const first = this.pass(id)[0];
        for (const node of first ? this.under(first[0]) : []) {
          const { label } = this.nodes.get(node);
          if (label.toLowerCase().includes(wanted)) hits.push({ pass: id, k: 0, node, label });
        }
        if (hits.length > HITS) break;
      }
      return { hits: hits.slice(0, HITS), more: hits.length > HITS };
    }
    lines({ lines }) {
      const wanted = new Set(lines), nodes = {};
      for (const id of Object.keys(this.data.passes)) {
        const first = this.data.passes[id][0];
        const found = (first ? this.under(first[0]) : []).filter((n) =>
          this.nodes.get(n).lines.some((l) => wanted.has(l)));
        if (found.length) nodes[id] = found;
      }
      const kernels = this.data.overview.kernels
        .filter((k) => k.lines.some((l) => wanted.has(l))).map((k) => k.id);
      return { kernels, nodes };
    }
    node({ node }) {
      const row = this.nodes.get(node);
      const wanted = new Set(row.lines);
      const kernels = this.data.overview.kernels
        .filter((k) => k.lines.some((l) => wanted.has(l))).map((k) => k.id);
      return { node: row, lines: row.lines, kernels, text: this.line(node), methods: [], calls: [] };
    }
    kernel({ kernel }) {
      return this.data.kernels[kernel];
    }
    answer(ask, args) {
      if (["actions", "run", "stop"].includes(ask)) {
        throw new Error("this is a report: open the notebook to change and run kernels");
      }
      if (typeof this[ask] !== "function") throw new Error(`the report does not answer ${ask}`);
      return this[ask](args);
    }
  }

  const modelOf = (book) => {
    const listeners = new Map();
    const traits = { overview: book.data.overview, first: book.data.first };
    return {
      get: (name) => traits[name],
      set: (name, value) => { traits[name] = value; },
      save_changes: () => {},
      on: (name, hear) => listeners.set(name, [...(listeners.get(name) ?? []), hear]),
      off: (name, hear) => listeners.set(
        name, hear ? (listeners.get(name) ?? []).filter((h) => h !== hear) : []),
      send: ({ id, ask, args }) => {
        let reply;
        try {
          reply = { id, ok: book.answer(ask, args ?? {}) };
        } catch (error) {
          reply = { id, error: error.message };
        }
        setTimeout(() => {
          for (const hear of listeners.get("msg:custom") ?? []) hear(reply, []);
        }, 0);
      },
    };
  };

  for (const el of document.querySelectorAll(".tinylab-record[data-record]")) {
    const model = modelOf(new Book(records[Number(el.dataset.record)]));
    const signal = new AbortController().signal;
    widget.render({ model, el, signal });
    for (const plain of el.parentElement.querySelectorAll(".tinylab-static")) plain.hidden = true;
  }
})();
