// The contrast of every text in an element with what is behind it, and of the canvas's texts.
(root) => {
  const parse = (text) => {
    const parts = text.match(/[\d.]+/g)?.map(Number) ?? [0, 0, 0, 0];
    if (text.startsWith("color(srgb")) return [...parts.slice(0, 3).map((x) => x * 255), parts[3] ?? 1];
    return [parts[0], parts[1], parts[2], parts[3] ?? 1];
  };
  const over = (top, under) => {
    const a = top[3];
    return [0, 1, 2].map((i) => top[i] * a + under[i] * (1 - a)).concat(1);
  };
  const light = (c) => {
    const [r, g, b] = c.slice(0, 3).map((v) => {
      const x = v / 255;
      return x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ratio = (a, b) => {
    const [x, y] = [light(a), light(b)].sort((p, q) => q - p);
    return (x + 0.05) / (y + 0.05);
  };
  const behind = (element) => {
    const layers = [];
    for (let e = element; e; e = e.parentElement) layers.push(parse(getComputedStyle(e).backgroundColor));
    return layers.reverse().reduce((under, top) => over(top, under), [255, 255, 255, 1]);
  };
  const found = [];
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    const text = node.textContent.trim();
    if (!text || element.tagName === "STYLE" || element.tagName === "OPTION") continue;
    const box = element.getBoundingClientRect();
    if (box.width < 1 || box.height < 1) continue;
    const back = behind(element);
    const front = over(parse(getComputedStyle(element).color), back);
    found.push({ text: text.slice(0, 30), look: element.className, ratio: ratio(front, back) });
  }
  // The canvas draws with the sheet's colours: each pair that it writes with.
  const probe = document.createElement("i");
  root.append(probe);
  const colour = (name) => {
    probe.style.color = `var(--tl-${name})`;
    return over(parse(getComputedStyle(probe).color), [255, 255, 255, 1]);
  };
  const kinds = ["movement", "alu", "reduce", "memory", "const", "range", "control", "other"];
  const fills = [...kinds.map((kind) => `fill-${kind}`), "added-fill", "gone-fill", "canvas"];
  for (const fill of fills) {
    for (const text of ["text", "faint"]) {
      found.push({ text: `${text} on ${fill}`, look: "canvas", ratio: ratio(colour(text), colour(fill)) });
    }
  }
  for (const badge of ["added", "gone"]) {
    found.push({ text: `badge ${badge}`, look: "canvas", ratio: ratio(colour("canvas"), colour(badge)) });
  }
  probe.remove();
  return found;
};
