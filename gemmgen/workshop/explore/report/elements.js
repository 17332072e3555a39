"use strict";
// What parts of the page are made of; text from the store only ever becomes text.
const elements = (() => {
  function made(tag, attributes = {}, ...inside) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...inside.filter((one) => one !== null && one !== undefined));
    return element;
  }
  const plain = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;"); // plotly reads marks in its texts
  const digits = (value, most = 3) => value === null || value === undefined ? "–"
      : Number(value.toPrecision(most)).toLocaleString("en", { maximumFractionDigits: 12 });
  const short = (value) => value === null || value === undefined ? "–" : value.toExponential(1);
  const percent = (ratio) => `${(100 * (ratio - 1)).toFixed(1)} %`;
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const narrow = () => window.innerWidth < 640;
  const mean = (ratios) => Math.exp(ratios.reduce((sum, one) => sum + Math.log(one), 0) / ratios.length); // geometric
  const unique = (values) => [...new Set(values)];

  // A box that scrolls is reached by the keyboard, and says what it has.
  const scrolling = (name, more, ...children) => made("div", { class: `wide${more}`, tabindex: "0", role: "region", "aria-label": name }, ...children);
  function table(header, rows, kinds, name) {
    const cell = (tag, value, at) => made(tag, kinds[at] ? { class: kinds[at] } : {}, value);
    return scrolling(name, "", made("table", {},
      made("thead", {}, made("tr", {}, ...header.map((one, at) => cell("th", one, at)))),
      made("tbody", {}, ...rows.map((row) => made("tr", {}, ...row.map((one, at) => cell("td", one, at)))))));
  }
  // Rows of numbers, texts and elements: a column's name sorts by it, words leave the rows that have all of them.
  const FEW_ROWS = 3, MOST_ROWS = 1000;
  function sortable(header, rows, kinds, name = "Table") {
    const state = { at: -1, up: true, words: [] };
    const tell = (value) => value === null || value === undefined ? "–" : typeof value !== "number" ? value
        : Number.isInteger(value) ? value.toLocaleString("en") : Math.abs(value) < 1e-3 ? short(value) : digits(value);
    const text = (value) => value instanceof Node ? value.textContent : String(tell(value));
    const body = made("tbody"), count = made("span", { class: "quiet", role: "status" });
    const heads = header.map((name, at) => {
      if (!name) return made("td", kinds[at] ? { class: kinds[at] } : {}); // of bars, which need no name
      const button = made("button", { type: "button" }, name);
      const head = made("th", { scope: "col", ...(kinds[at] ? { class: kinds[at] } : {}) }, button);
      button.addEventListener("click", () => {
        // The first click has the largest number, or the first word, on top.
        const up = state.at === at ? !state.up : !rows.some((row) => typeof row[at] === "number");
        Object.assign(state, { at, up });
        fill();
      });
      return head;
    });
    function fill() {
      const { at, up, words } = state;
      const left = rows.filter((row) => { const line = row.map(text).join(" ").toLowerCase(); return words.every((word) => line.includes(word)); });
      const none = (value) => value === null || value === undefined;
      if (at >= 0) left.sort((a, b) => {
        if (none(a[at]) || none(b[at])) return none(a[at]) - none(b[at]);
        const order = typeof a[at] === "number" ? a[at] - b[at] : text(a[at]).localeCompare(text(b[at]), "en", { numeric: true });
        return up ? order : -order;
      });
      heads.forEach((head, nth) => { nth === at ? head.setAttribute("aria-sort", up ? "ascending" : "descending") : head.removeAttribute("aria-sort"); });
      body.replaceChildren(...left.slice(0, MOST_ROWS).map((row) =>
        made("tr", {}, ...row.map((one, nth) => made("td", kinds[nth] ? { class: kinds[nth] } : {}, tell(one))))));
      count.textContent = (left.length < rows.length ? `${left.length} of ${rows.length} rows` : `${rows.length} rows`)
          + (left.length > MOST_ROWS ? `, the first ${MOST_ROWS} shown` : "");
    }
    const words = made("input", { type: "search", size: 24 });
    words.addEventListener("input", () => { state.words = words.value.toLowerCase().split(/\s+/).filter(Boolean); fill(); });
    fill();
    return made("div", {}, rows.length > FEW_ROWS ? made("div", { class: "search" }, made("label", {}, "Filter ", words), count) : null,
      scrolling(name, " tall",
        made("table", {}, made("thead", {}, made("tr", {}, ...heads)), body)));
  }
  function bar(share) {
    const element = made("span", { class: "bar" });
    element.style.width = `${100 * share}%`;
    return element;
  }
  // A block's tile of C with its warps' tiles, of which the first is filled, and in it that of one instruction.
  function tiles([bm, bn, wm, wn, fm, fn]) {
    const scale = 200 / Math.max(bm, bn), svg = (tag, attributes) => {
      const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
      for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
      return element;
    };
    const box = (x, y, wide, high, fill) => svg("rect", { x: 1 + x * scale, y: 1 + y * scale, width: wide * scale, height: high * scale, fill,
      stroke: "var(--quiet)" });
    const drawing = svg("svg", { width: bn * scale + 2, height: bm * scale + 2, role: "img", "aria-label": "Tiles of a block" });
    for (let y = 0; y < bm; y += Math.max(1, wm)) for (let x = 0; x < bn; x += Math.max(1, wn)) { // each warp's
      drawing.append(box(x, y, Math.min(wn, bn - x), Math.min(wm, bm - y), x || y ? "none" : "var(--faint)"));
    }
    drawing.append(box(0, 0, Math.min(fn, wn), Math.min(fm, wm), "var(--accent)"));
    return made("figure", {}, drawing, made("figcaption", { class: "quiet" },
      `A block computes ${bm} x ${bn} elements of C, a warp or warpgroup ${wm} x ${wn} (filled), an instruction ${fm} x ${fn} (blue).`));
  }
  return { made, plain, digits, short, percent, colour, narrow, mean, unique, table, sortable, bar, tiles };
})();
