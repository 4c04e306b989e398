// Answers the front end's questions from data in the page, so that a report can be stepped through
// without a kernel. One model per record, with the few methods of a notebook's model.

/** A record: rows of nodes, and the matches of each pass; steps are replayed as trace/replay.py does. */
class Book {
  static HITS = 200;
  static KEPT = 12;

  constructor(data) {
    this.data = data;
    this.rows = new Map(); // id -> [head, shape, lines, ...sources]
    this.ids = new Map(); // head and sources -> id
    this.drawn = new Map();
    this.steps = new Map();
    this.next = 0;
    for (const [id, head, shape, lines, ...src] of data.nodes) {
      this.rows.set(id, { head, shape, lines, src });
      this.ids.set(`${head}:${src}`, id);
      this.next = Math.max(this.next, id + 1);
    }
    this.alike = new Map(); // heads that differ in dtype alone
    this.heads = data.heads.map((head) => [...head]);
    this.heads.forEach((_, number) => this.noteHead(number));
  }

  static alikeKey([op, label, arg, , kind, tag]) {
    return JSON.stringify([op, label, arg, kind, tag]);
  }

  noteHead(number) {
    const key = Book.alikeKey(this.heads[number]);
    this.alike.set(key, [...(this.alike.get(key) ?? []), number]);
  }

  // *** replay

  pass(id) {
    const found = this.data.passes[id];
    if (!found) throw new Error(`the report does not hold pass ${id}`);
    return found;
  }

  count(pass) {
    return this.pass(pass).before.length;
  }

  /** The graph after match k: its root, and what became of each node. */
  graph(pass, wanted) {
    const k = Math.min(Math.max(0, wanted), this.count(pass));
    const key = `${pass}:${k}`;
    let found = this.steps.get(key);
    if (!found) {
      const shown = this.pass(pass);
      const becomes = new Map();
      for (let i = 0; i < k; i += 1) becomes.set(shown.before[i], shown.after[i]);
      const image = shown.walk ? this.once(shown, becomes) : this.toTheEnd(shown, becomes);
      const root = image.get(shown.root);
      found = { k, root, image, order: this.under(root) };
      this.steps.set(key, found);
      if (this.steps.size > Book.KEPT) this.steps.delete(this.steps.keys().next().value);
    }
    return found;
  }

  /** Sources that a pass does not look into: the body of a call. */
  skipped(shown, id) {
    const op = this.heads[this.rows.get(id).head][0];
    return !shown.enterCalls && (op === "CALL" || op === "FUNCTION") ? 1 : 0;
  }

  toTheEnd(shown, becomes) {
    const done = new Map();
    const opened = new Map();
    const stack = [shown.root];
    while (stack.length) {
      const id = stack[stack.length - 1];
      if (done.has(id)) {
        stack.pop();
        continue;
      }
      let now = opened.get(id);
      if (now === undefined) opened.set(id, (now = this.chase(id, becomes)));
      const below = this.rows.get(now).src.slice(this.skipped(shown, now));
      const waiting = below.filter((s) => !done.has(s) && !opened.has(s));
      if (waiting.length) {
        stack.push(...waiting.reverse());
        continue;
      }
      const rebuilt = this.rebuild(shown, now, done);
      if (rebuilt !== now && becomes.has(rebuilt)) {
        opened.set(id, this.chase(rebuilt, becomes));
        continue;
      }
      done.set(id, rebuilt);
      if (!done.has(now)) done.set(now, rebuilt);
      stack.pop();
    }
    return done;
  }

  once(shown, becomes) {
    const done = new Map();
    const stack = [shown.root];
    while (stack.length) {
      const id = stack[stack.length - 1];
      if (done.has(id)) {
        stack.pop();
        continue;
      }
      if (shown.bottomUp && becomes.has(id)) {
        done.set(id, becomes.get(id));
        continue;
      }
      const below = this.rows.get(id).src.slice(this.skipped(shown, id));
      const waiting = below.filter((s) => !done.has(s));
      if (waiting.length) {
        stack.push(...waiting.reverse());
        continue;
      }
      const rebuilt = this.rebuild(shown, id, done);
      done.set(id, shown.bottomUp ? rebuilt : (becomes.get(rebuilt) ?? rebuilt));
    }
    return done;
  }

  chase(id, becomes) {
    const seen = new Set([id]);
    while (becomes.has(id)) {
      id = becomes.get(id);
      if (seen.has(id)) break;
      seen.add(id);
    }
    return id;
  }

  rebuild(shown, id, done) {
    const row = this.rows.get(id);
    const skip = this.skipped(shown, id);
    const src = row.src.map((s, i) => (i < skip ? s : (done.get(s) ?? s)));
    if (src.every((s, i) => s === row.src[i])) return id;
    const type = (s) => this.heads[this.rows.get(s).head][3];
    const head = src.every((s, i) => type(s) === type(row.src[i]))
      ? row.head
      : this.headFor(row, src, type);
    const key = `${head}:${src}`;
    let found = this.ids.get(key);
    if (found === undefined) {
      found = this.next;
      this.next += 1;
      this.ids.set(key, found);
      this.rows.set(found, { head, shape: row.shape, lines: row.lines, src });
    }
    return found;
  }

  headFor(row, src, type) {
    const own = this.heads[row.head];
    const alike = this.alike.get(Book.alikeKey(own)) ?? [];
    const known = alike.find((head) => this.ids.has(`${head}:${src}`));
    if (known !== undefined) return known;
    const had = src.map(type).filter((_, i) => type(row.src[i]) === own[3]);
    const dtype = had.find((t) => !t.includes("weak")) ?? had[0] ?? own[3];
    let head = alike.find((number) => this.heads[number][3] === dtype);
    if (head === undefined) {
      head = this.heads.length;
      this.heads.push([own[0], own[1], own[2], dtype, own[4], own[5]]);
      this.noteHead(head);
    }
    return head;
  }

  under(root) {
    const order = [];
    const seen = new Set();
    const stack = [root];
    while (stack.length) {
      const id = stack.pop();
      if (id < 0) order.push(~id);
      else if (!seen.has(id)) {
        seen.add(id);
        stack.push(~id, ...[...this.rows.get(id).src].reverse());
      }
    }
    return order;
  }

  // *** nodes

  draw(id) {
    let found = this.drawn.get(id);
    if (!found) {
      const row = this.rows.get(id);
      const [op, label, arg, dtype, kind, tag] = this.heads[row.head];
      const shape = this.data.shapes[row.shape];
      const lines = this.data.lines[row.lines];
      found = { id, op, label: this.label(row, label), arg, dtype, kind, tag, src: row.src, shape, lines };
      this.drawn.set(id, found);
    }
    return found;
  }

  label(row, label) {
    if (!/^(RANGE|SPECIAL)/.test(label) || row.src.length === 0) return label;
    const [op, , size] = this.heads[this.rows.get(row.src[0]).head];
    return op === "CONST" ? `${label} x${size}` : label;
  }

  line(id, name = new Map()) {
    const n = this.draw(id);
    const shown = (s) => `%${name.get(s) ?? s}`;
    const arg = n.arg ? ` [${n.arg}]` : "";
    const dtype = n.dtype === "void" ? "" : ` ${n.dtype}`;
    const sizes = n.shape?.length > 12 ? [...n.shape.slice(0, 11), "…"] : n.shape;
    const shape = sizes?.length ? ` (${sizes.join(", ")})` : "";
    return `${shown(id)} = ${n.op}(${n.src.map(shown).join(", ")})${arg}${dtype}${shape}`;
  }

  // *** answers

  step({ pass, k }) {
    const shown = this.pass(pass);
    const graph = this.graph(pass, k);
    const answer = {
      pass, k: graph.k, total: this.count(pass), rule: null, before: null, after: null, full: true,
      nodes: graph.order.map((id) => this.draw(id)), root: graph.root, removed: [], added: [],
      gone: [], ancestors: [], more: false, count: graph.order.length,
      failed: graph.k === this.count(pass) ? shown.failed : null,
    };
    if (graph.k > 0) {
      const at = graph.k - 1;
      const earlier = this.graph(pass, at);
      const had = new Set(earlier.order);
      const has = new Set(graph.order);
      const [before, after] = [shown.before[at], shown.after[at]];
      answer.rule = { ...this.data.rules[shown.rule[at]], elapsed_us: shown.us[at] };
      answer.before = had.has(before) ? before : (earlier.image.get(before) ?? before);
      answer.after = has.has(after)
        ? after
        : (graph.image.get(after) ?? graph.image.get(before) ?? after);
      answer.added = graph.order.filter((id) => !had.has(id));
      answer.gone = earlier.order.filter((id) => !has.has(id)).map((id) => this.draw(id));
    }
    return answer;
  }

  /** Lines of a step; a node that was only rebuilt keeps the name it had at the start. */
  lines_of(pass, k) {
    const graph = this.graph(pass, k);
    const name = new Map();
    for (const [id, now] of graph.image) {
      if (now !== id && this.rows.get(now).head === this.rows.get(id).head && !name.has(now)) {
        name.set(now, id);
      }
    }
    return graph.order.map((node) => ({ text: this.line(node, name), node }));
  }

  text({ pass, k }) {
    const now = this.lines_of(pass, k);
    const earlier = k > 0 ? this.lines_of(pass, k - 1) : now;
    const had = new Set(earlier.map((line) => line.text));
    const has = new Set(now.map((line) => line.text));
    const lines = now.map((line) => ({ ...line, mark: had.has(line.text) ? "" : "+" }));
    const went = earlier.filter((line) => !has.has(line.text));
    const diff = [
      ...went.map(({ text }) => ({ text, mark: "-" })),
      ...lines.filter((line) => line.mark).map(({ text }) => ({ text, mark: "+" })),
    ];
    return { lines, diff, more: false };
  }

  search({ query, pass }) {
    const wanted = query.trim().toLowerCase();
    const hits = [];
    const known = new Map(); // the same node in pass after pass of a stage is one hit
    const { stages } = this.data.overview;
    const all = stages.flatMap((stage) => stage.passes.map((each) => each.id));
    for (const id of wanted ? (pass === null || pass === undefined ? all : [pass]) : []) {
      const shown = this.pass(id);
      const fired = new Map();
      shown.rule.forEach((rule, at) => {
        const { name: label, law: detail } = this.data.rules[rule];
        if (!label.toLowerCase().includes(wanted)) return;
        if (fired.has(rule)) fired.get(rule).matches += 1;
        else fired.set(rule, { pass: id, k: at + 1, node: shown.after[at], label, detail, matches: 1 });
      });
      hits.push(...fired.values());
      for (const node of this.under(shown.root)) {
        const { label } = this.draw(node);
        if (!label.toLowerCase().includes(wanted)) continue;
        const key = `${this.stageOf(id)}:${node}`;
        if (known.has(key)) known.get(key).passes += 1;
        else {
          known.set(key, { pass: id, k: 0, node, label, detail: this.words(node), passes: 1 });
          hits.push(known.get(key));
        }
      }
      if (hits.length > Book.HITS) break;
    }
    return { hits: hits.slice(0, Book.HITS), more: hits.length > Book.HITS };
  }

  stageOf(pass) {
    const { stages } = this.data.overview;
    return stages.findIndex((stage) => stage.passes.some((each) => each.id === pass));
  }

  // What tells a node from others of its op.
  words(id) {
    const { dtype, shape, src } = this.draw(id);
    const sizes = shape?.length > 12 ? [...shape.slice(0, 11), "…"] : shape;
    const type = [dtype === "void" ? "" : dtype, sizes?.length ? `(${sizes.join(", ")})` : ""];
    const of = src.slice(0, 4).map((each, i) => (i < 3 ? this.draw(each).label : "…"));
    const parts = [`%${id}`, type.filter(Boolean).join(" "), of.length ? `of ${of.join(", ")}` : ""];
    return parts.filter(Boolean).join(" · ");
  }

  kernelsOf(lines) {
    return this.data.overview.kernels
      .filter((kernel) => kernel.lines.some((line) => lines.has(line)))
      .map((kernel) => kernel.id);
  }

  lines({ lines }) {
    const wanted = new Set(lines);
    const nodes = {};
    for (const id of Object.keys(this.data.passes)) {
      const found = this.under(this.pass(id).root).filter((node) =>
        this.draw(node).lines.some((line) => wanted.has(line)),
      );
      if (found.length) nodes[id] = found;
    }
    return { kernels: this.kernelsOf(wanted), nodes };
  }

  node({ node }) {
    const row = this.draw(node);
    const kernels = this.kernelsOf(new Set(row.lines));
    return { node: row, lines: row.lines, kernels, text: this.line(node), methods: [], calls: [] };
  }

  kernel({ kernel }) {
    return this.data.kernels[kernel];
  }

  answer(ask, args) {
    if (["actions", "run", "row", "count", "stop"].includes(ask)) {
      throw new Error("this is a report: open the notebook to change and run kernels");
    }
    if (!["step", "text", "search", "lines", "node", "kernel"].includes(ask)) {
      throw new Error(`the report does not answer ${ask}`);
    }
    return this[ask](args);
  }
}

const mount = async () => {
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
    // A timeline has no player here: its picture and table stay.
    const plains = el.parentElement.querySelectorAll(".tinylab-static:not(.tinylab-timeline)");
    for (const plain of plains) plain.hidden = true;
  }
};

if (typeof document !== "undefined") mount();
