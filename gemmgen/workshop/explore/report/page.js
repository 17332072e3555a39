"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const points = data.points.map((values) => Object.fromEntries(data.columns.map((name, at) => [name, values[at]])));
  const mixed = data.timed && points.some((one) => one.times === "predicted");
  const measure = mixed ? "measured (hollow: predicted)" : data.timed ? "measured" : "predicted";
  const isMeasured = (one) => one.times === "measured";
  const measuredFirst = (of) => of.some(isMeasured) ? of.filter(isMeasured) : of; // predicted times do not compete with measured ones

  // ---- elements; text from the store only ever becomes text

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
  const unique = (values) => [...new Set(values)];

  function table(header, rows, kinds) {
    const cell = (tag, value, at) => made(tag, kinds[at] ? { class: kinds[at] } : {}, value);
    return made("div", { class: "wide" }, made("table", {},
      made("thead", {}, made("tr", {}, ...header.map((one, at) => cell("th", one, at)))),
      made("tbody", {}, ...rows.map((row) => made("tr", {}, ...row.map((one, at) => cell("td", one, at)))))));
  }
  // Rows of numbers and texts: a column's name sorts by it, words leave the rows that have all of them.
  function sortable(header, rows, kinds) {
    const state = { at: -1, up: true, words: [] };
    const tell = (value) => value === null ? "–" : typeof value !== "number" ? value : Math.abs(value) < 1e-3 ? short(value) : digits(value);
    const body = made("tbody"), count = made("span", { class: "quiet", role: "status" });
    const heads = header.map((name, at) => {
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
      const left = rows.filter((row) => { const text = row.map(tell).join(" ").toLowerCase(); return words.every((word) => text.includes(word)); });
      if (at >= 0) left.sort((a, b) => {
        if (a[at] === null || b[at] === null) return (a[at] === null) - (b[at] === null);
        const order = typeof a[at] === "number" ? a[at] - b[at] : String(a[at]).localeCompare(String(b[at]), "en", { numeric: true });
        return up ? order : -order;
      });
      heads.forEach((head, nth) => { nth === at ? head.setAttribute("aria-sort", up ? "ascending" : "descending") : head.removeAttribute("aria-sort"); });
      body.replaceChildren(...left.map((row) => made("tr", {}, ...row.map((one, nth) => made("td", kinds[nth] ? { class: kinds[nth] } : {}, tell(one))))));
      count.textContent = left.length < rows.length ? `${left.length} of ${rows.length} rows` : `${rows.length} rows`;
    }
    const words = made("input", { type: "search", size: 24 });
    words.addEventListener("input", () => { state.words = words.value.toLowerCase().split(/\s+/).filter(Boolean); fill(); });
    fill();
    return made("div", {}, made("div", { class: "search" }, made("label", {}, "Filter ", words), count),
      made("div", { class: "wide tall", tabindex: "0", role: "region", "aria-label": "Table" },
        made("table", {}, made("thead", {}, made("tr", {}, ...heads)), body)));
  }
  function bar(share) {
    const element = made("span", { class: "bar" });
    element.style.width = `${100 * share}%`;
    return element;
  }

  // ---- what is looked at

  const sizesOf = (gpu) => data.sizes.filter((one) => one.gpu === gpu);
  const chosen = { tab: 0, gpu: data.gpus.length ? data.gpus[0].name : "", size: 0 };
  const here = () => points.filter((one) => one.gpu === chosen.gpu);
  const atSize = () => { const size = sizesOf(chosen.gpu)[chosen.size]; return size ? here().filter((one) => one.size === size.label) : []; };

  function choice(label, values, selected, changed) {
    const list = made("select", {}, ...values.map((one, at) => made("option", { value: at }, one)));
    list.value = selected;
    list.addEventListener("change", () => changed(Number(list.value)));
    return made("label", {}, label, list);
  }
  function filters(bySize) {
    const place = document.getElementById("filters"), gpus = data.gpus.map((one) => one.name);
    place.replaceChildren();
    if (gpus.length > 1) place.append(choice("GPU", gpus, gpus.indexOf(chosen.gpu),
        (at) => { chosen.gpu = gpus[at]; chosen.size = usual(); show(); }));
    if (bySize && sizesOf(chosen.gpu).length > 1) {
      place.append(choice("Size", sizesOf(chosen.gpu).map((one) => one.label), chosen.size, (at) => { chosen.size = at; show(); }));
    }
  }
  function usual() {
    const counts = sizesOf(chosen.gpu).map((one) => one.points);
    return Math.max(0, counts.lastIndexOf(Math.max(...counts)));
  }

  // ---- plots

  let drawn = null;
  function plot(place, traces, layout) {
    const text = colour("text"), line = colour("line"), small = narrow();
    const axis = { gridcolor: line, zerolinecolor: line, linecolor: line, automargin: true };
    const whole = {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: text, size: small ? 12 : 13, family: "system-ui, sans-serif" },
      margin: { l: small ? 52 : 66, r: 12, t: 12, b: 56 }, hovermode: "closest", dragmode: small ? false : "zoom", showlegend: true,
      legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: colour("quiet"), activecolor: text },
      hoverlabel: { bgcolor: colour("raised"), bordercolor: line, font: { color: text }, align: "left" }, ...layout,
    };
    whole.xaxis = { ...axis, ...layout.xaxis };
    whole.yaxis = { ...axis, ...layout.yaxis };
    drawn = made("div", { class: "plot" });
    place.append(drawn);
    Plotly.newPlot(drawn, traces, whole, { responsive: true, displaylogo: false, displayModeBar: small ? false : "hover",
        modeBarButtonsToRemove: ["lasso2d", "select2d"] });
  }
  const schemes = unique(points.filter((one) => one.kind !== "rival").map((one) => one.scheme)).sort();
  const rivals = unique(points.filter((one) => one.kind === "rival").map((one) => one.kernel)).sort();
  const colourOf = (scheme) => colour(`c${schemes.indexOf(scheme) % 8}`);
  const SYMBOLS = ["circle", "square", "triangle-up", "star"], MARKS = ["diamond", "x", "cross", "hexagon", "triangle-down", "bowtie"];
  const symbolOf = (scheme) => SYMBOLS[Math.floor(schemes.indexOf(scheme) / 8) % SYMBOLS.length];
  const told = (one) => [plain(one.kernel), plain(Object.entries(one.decided).map((pair) => pair.join(" ")).join(", ")),
    `${plain(one.size)}: ${digits(one.tflops)} TFLOP/s, ${digits(1e6 * one.seconds)} µs`,
    one.error === null ? null : `error ${short(one.error)}`].filter(Boolean).join("<br>");
  const scatter = (of, x, y, more) => ({
    type: "scatter", mode: "markers", x: of.map(x), y: of.map(y), text: of.map(told), hovertemplate: "%{text}<extra></extra>", ...more,
  });
  const lead = (place, ...sentences) => place.append(made("p", { class: "quiet" }, sentences.join(" ")));
  const nothing = (why) => made("p", { class: "note" }, why);

  function powers(values) { // marks of a logarithmic axis, as many as tell where values lie
    const low = Math.log10(Math.min(...values)), high = Math.log10(Math.max(...values)), tickvals = [];
    const digits = high - low < .8 ? [1, 1.5, 2, 3, 4, 5, 7] : high - low < 2 ? [1, 2, 5] : [1];
    for (let power = Math.floor(low) - 1; power <= Math.ceil(high); power++) tickvals.push(...digits.map((one) => one * 10 ** power));
    const edge = Math.max(.15, .06 * (high - low));
    return { tickvals, ticktext: tickvals.map((one) => one.toExponential().replace(/^1e/, "10e").replace(/^(.*)e(.*)$/, (_, digit, power) =>
      digit === "10" ? `10<sup>${power}</sup>` : `${digit}·10<sup>${power}</sup>`)), range: [low - edge, high + edge] };
  }

  function bySpeed(place) {
    const all = atSize().filter((one) => one.error !== null && one.tflops !== null);
    lead(place, `Each point is a kernel at this size: its ${measure} speed and its relative error, ||C − C*|| / ||C*||.`,
      "Right and low is good; no kernel beats one on the line in both.");
    if (!all.length) return place.append(nothing("No kernel at this size has both an error and a time."));
    const traces = schemes.map((scheme) => [scheme, all.filter((one) => one.kind !== "rival" && one.scheme === scheme)]).filter(([, of]) => of.length)
      .map(([scheme, of]) => scatter(of, (one) => one.tflops, (one) => one.error, { name: plain(scheme || "kernels"), marker: { color: colourOf(scheme),
          symbol: of.map((one) => symbolOf(scheme) + (mixed && !isMeasured(one) ? "-open" : "")), size: 8, opacity: .75 } }));
    rivals.forEach((name, at) => {
      const of = all.filter((one) => one.kind === "rival" && one.kernel === name);
      if (of.length) traces.push(scatter(of, (one) => one.tflops, (one) => one.error,
          { name: plain(name), marker: { color: colour("rival"), symbol: MARKS[at % MARKS.length], size: 11 } }));
    });
    const front = [];
    for (const one of measuredFirst(all.filter((one) => one.kind !== "rival")).sort((a, b) => b.tflops - a.tflops || a.error - b.error)) {
      if (!front.length || one.error < front[front.length - 1].error) front.push(one);
    }
    traces.unshift({ type: "scatter", mode: "lines", name: "frontier", x: front.map((one) => one.tflops), y: front.map((one) => one.error),
        line: { color: colour("quiet"), width: 1.5, shape: "vh" }, hoverinfo: "skip" });
    plot(place, traces, { xaxis: { title: { text: `TFLOP/s, ${measure}` }, rangemode: "tozero" },
        yaxis: { title: { text: "relative error" }, type: "log", ...powers(all.map((one) => one.error)) } });
  }

  function bySize(place) {
    const all = here().filter((one) => one.tflops !== null);
    lead(place, `The fastest kernel of each scheme at each size, ${measure}, beside rivals.`,
      "Lines join cubes; other products stand at the cube of as many multiply-adds, hollow.");
    if (!all.length) return place.append(nothing("No row of this GPU has a time."));
    const best = (of) => {
      const found = new Map(), rank = (one) => (isMeasured(one) ? 1e12 : 0) + one.tflops;
      for (const one of of) if (!found.has(one.size) || rank(one) > rank(found.get(one.size))) found.set(one.size, one);
      return [...found.values()].sort((a, b) => a.edge - b.edge);
    };
    const line = (of, more) => {
      const hollow = { mode: "markers", marker: { ...more.marker, symbol: `${more.marker.symbol}-open` } };
      const parts = [[of.filter((one) => one.cube), {}], [of.filter((one) => !one.cube), hollow]].filter(([some]) => some.length);
      return parts.map(([some, own], at) => scatter(some, (one) => one.edge, (one) => one.tflops,
        { mode: "lines+markers", legendgroup: more.name, showlegend: at === 0, ...more, ...own }));
    };
    const traces = schemes.map((scheme) => [scheme, best(all.filter((one) => one.kind === "kernel" && one.scheme === scheme))])
        .filter(([, of]) => of.length)
      .flatMap(([scheme, of]) => line(of, { name: plain(scheme || "kernels"), line: { color: colourOf(scheme), width: 2 },
          marker: { color: colourOf(scheme), symbol: symbolOf(scheme), size: 7 } }));
    rivals.forEach((name, at) => {
      const of = best(all.filter((one) => one.kind === "rival" && one.kernel === name));
      if (of.length) traces.push(...line(of, { name: plain(name), line: { color: colour("rival"), width: 1.5,
          dash: ["dash", "dot", "dashdot"][at % 3] }, marker: { color: colour("rival"), symbol: MARKS[at % MARKS.length], size: 8 } }));
    });
    const exponents = all.map((one) => Math.log2(one.edge)), ticks = [];
    for (let at = Math.floor(Math.min(...exponents)); at <= Math.ceil(Math.max(...exponents)); at += narrow() ? 2 : 1) ticks.push(2 ** at);
    plot(place, traces, { xaxis: { title: { text: "cube root of m n k" }, type: "log", tickvals: ticks, ticktext: ticks.map(String) },
        yaxis: { title: { text: `TFLOP/s, ${measure}` }, rangemode: "tozero" } });
    const fastest = new Map(best(all.filter((one) => one.kind === "kernel")).map((one) => [one.size, one]));
    const others = new Map(best(all.filter((one) => one.kind === "rival")).map((one) => [one.size, one]));
    const header = ["size", "TFLOP/s", "µs", "times", "scheme", "error", "kernel"], kinds = ["size", "number", "number", "", "", "number", "name"];
    if (others.size) { header.push("best rival", "its TFLOP/s", "ratio"); kinds.push("size", "number", "number"); }
    const rows = [...fastest.values()].map((own) => {
      const other = others.get(own.size);
      return [own.size, own.tflops, 1e6 * own.seconds, own.times, own.scheme, own.error, own.kernel,
        ...(others.size ? other ? [other.kernel, other.tflops, own.tflops / other.tflops] : [null, null, null] : [])];
    });
    place.append(made("h2", {}, "The fastest at each size, whatever its error"), sortable(header, rows, kinds));
  }

  const CLASSES = [[.95, "at least 95 % of the best at the size", "c1", 2.2, 1], [.8, "80 to 95 %", "c0", 1.4, .8],
      [.5, "50 to 80 %", "c2", 1, .55], [0, "less", "faint", .8, .5]];
  const MOST_LINES = 400;
  function byDecision(place) {
    const all = here().filter((one) => one.kind === "kernel" && one.tflops !== null);
    const names = data.decisions.filter((name) => unique(all.map((one) => one.decided[name])).length > 1);
    lead(place, "Each line is a kernel at a size, through the values of its decisions;",
      `the last axis is its ${measure} speed as a share of the best at that size. A name in the legend hides or shows its lines.`);
    if (!all.length || !names.length) return place.append(nothing("The kernels differ in no decision that was recorded."));
    const best = new Map();
    const rival = (one) => `${one.times} ${one.size}`; // predicted and measured speeds have each their best
    for (const one of all) best.set(rival(one), Math.max(best.get(rival(one)) || 0, one.tflops));
    const share = (one) => one.tflops / best.get(rival(one));
    const valueOf = (one, name) => one.decided[name] === undefined ? "–" : one.decided[name];
    const values = names.map((name) => unique(all.map((one) => valueOf(one, name)))
        .sort((a, b) => String(a).localeCompare(String(b), "en", { numeric: true })));
    const rows = narrow(), last = names.length;
    const across = (one, at) => {
      const spread = values[at].length > 1 ? Math.min(.08, .5 / (values[at].length - 1)) : 0;
      return values[at].indexOf(valueOf(one, names[at])) / Math.max(1, values[at].length - 1) + spread * (one.jitter - .5);
    };
    const traces = CLASSES.map(([least, told, tint, width, opacity], nth) => {
      let of = all.filter((one) => share(one) >= least && (nth === 0 || share(one) < CLASSES[nth - 1][0]));
      const whole = of.length, step = Math.ceil(whole / (MOST_LINES / CLASSES.length));
      of = of.filter((_, at) => at % step === 0);
      const x = [], y = [];
      for (const one of of) {
        names.forEach((_, at) => { x.push(at); y.push(across(one, at)); });
        x.push(last, null);
        y.push(share(one), null);
      }
      return { type: "scatter", mode: "lines", name: `${told} (${whole}${of.length < whole ? `, ${of.length} drawn` : ""})`, x: rows ? y : x,
          y: rows ? x : y, line: { color: colour(tint), width }, opacity, hoverinfo: "skip", count: whole };
    }).filter((one) => one.count).reverse();
    const quiet = colour("quiet"), label = (text, at, value, more) => ({ text: plain(text), showarrow: false, x: rows ? value : at, y: rows ? at
        : value, ...more });
    const annotations = [], shapes = [];
    [...names, "speed"].forEach((name, at) => {
      shapes.push(rows ? { type: "line", x0: 0, x1: 1, y0: at, y1: at, line: { color: quiet, width: 1 }, layer: "below" }
          : { type: "line", x0: at, x1: at, y0: 0, y1: 1, line: { color: quiet, width: 1 }, layer: "below" });
      annotations.push(rows ? label(name.replaceAll("_", " "), at, -.05,
          { xanchor: "left", yanchor: "bottom", yshift: 4, font: { size: 12 }, bgcolor: colour("back"), opacity: .9, borderpad: 1 })
          : label(name.replaceAll("_", " "), at, 1.09, { font: { size: 13 } }));
      const marks = at === last ? [0, .5, 1].map((one) => [`${100 * one} %`, one]) : values[at]
          .map((one, nth) => [one, nth / Math.max(1, values[at].length - 1)]);
      const longest = Math.max(...marks.map(([text]) => String(text).length)),
          every = Math.ceil((marks.length - 1) / (rows ? Math.max(1, Math.floor(34 / (longest + 3)) - 1) : 14)) || 1;
      marks.filter((_, nth) => nth % every === 0).forEach(([text, value]) => {
        annotations.push(label(String(text).slice(0, 14), at, value, rows
            ? { yanchor: "top", yshift: -1, font: { size: 10 }, bgcolor: colour("back"), opacity: .9 }
            : { xanchor: "left", xshift: 3, font: { size: 11 }, bgcolor: colour("back"), opacity: .85, borderpad: 1 }));
      });
    });
    const hidden = { visible: false, fixedrange: true };
    const along = { ...hidden, range: rows ? [last + .55, -.6] : [-.15, last + .45] },
        value = { ...hidden, range: rows ? [-.08, 1.08] : [-.06, 1.16] };
    plot(place, traces, { xaxis: rows ? value : along, yaxis: rows ? along : value, annotations, shapes,
        legend: { orientation: "h", y: -.02, yanchor: "top", x: 0, traceorder: "reversed" }, margin: { l: 12, r: 12, t: 12, b: 12 },
      ...(rows ? { height: 150 + 64 * (last + 1) } : {}) });
    if (rows) drawn.style.height = `${150 + 64 * (last + 1)}px`;
  }

  function byModel(place) {
    const all = here().filter((one) => one.kind === "kernel" && one.verdict === "timed" && one.predicted !== null);
    lead(place, "The model's time against the measured one. On the line they agree; above it the kernel took longer than predicted.",
      "Told are the mean error and, as the bias, the mean with its sign.");
    if (!all.length) return place.append(nothing(data.timed ? "No timed kernel of this GPU has a predicted time."
        : "Nothing was timed, so there is nothing to hold predictions against."));
    const designs = unique(all.map((one) => one.design)).sort(), seconds = all.flatMap((one) => [one.seconds, one.predicted]);
    const low = 1e6 * Math.min(...seconds) / 1.3, high = 1e6 * Math.max(...seconds) * 1.3;
    const traces = [{ type: "scatter", mode: "lines", name: "equal", x: [low, high], y: [low, high],
        line: { color: colour("quiet"), width: 1.5, dash: "dash" }, hoverinfo: "skip" },
      ...designs.map((design, at) => scatter(all.filter((one) => one.design === design), (one) => 1e6 * one.predicted, (one) => 1e6 * one.seconds,
          { name: plain(design || "kernels"), marker: { color: colour(`c${at % 8}`), size: 6, opacity: .7 } }))];
    const log = { type: "log", dtick: 1 };
    plot(place, traces, { xaxis: { title: { text: "predicted, µs" }, ...log }, yaxis: { title: { text: "measured, µs" }, ...log } });
    const about = (of) => {
      const logs = of.map((one) => Math.log(one.seconds / one.predicted)), mean = logs.reduce((a, b) => a + b, 0) / logs.length;
      return [of.length, percent(Math.exp(logs.reduce((a, b) => a + Math.abs(b), 0) / logs.length)), percent(Math.exp(mean)),
          `${(100 * logs.filter((one) => Math.abs(one) < Math.log(1.1)).length / logs.length).toFixed(0)} %`];
    };
    place.append(table(["design", "points", "error", "bias", "within 10 %"],
        [...designs.map((design) => [design || "–", ...about(all.filter((one) => one.design === design))]),
        ...(designs.length > 1 ? [["all", ...about(all)]] : [])], ["", "number", "number", "number", "number"]));
    if (data.shown < data.plottable) place.append(made("p", { class: "quiet" }, "Of the points that are drawn."));
  }

  function byReason(place) {
    const all = data.rejected.filter((one) => one.gpu === chosen.gpu), most = Math.max(1, ...all.map((one) => one.count));
    lead(place, "Candidates that became no right kernel, by the inequality that they break or by what went wrong, each with one kernel's numbers.",
      "Counts are of all rows.");
    if (!all.length) return place.append(nothing("No candidate of this GPU was rejected."));
    place.append(table(["verdict", "reason", "candidates", ""], all.map((one) => [one.verdict, one.reason, one.count.toLocaleString("en"),
        bar(one.count / most)]), ["", "name", "number", "bars"]));
  }

  function kernels(place) {
    const all = data.kernels.filter((one) => one.gpu === chosen.gpu);
    place.append(made("p", { class: "quiet" }, data.kernels_told));
    if (data.rules.length) {
      for (const part of data.rules.filter((one) => one.gpu === chosen.gpu)) {
        place.append(made("h2", {}, `Dispatch for layout ${part.layout}`),
          table([part.by === "rules" ? "where" : "the least of", "kernel"], part.rules, ["", "name"]));
        if (part.regret) place.append(made("p", {}, part.regret));
      }
      place.append(made("h2", {}, "The kernels"));
    }
    if (!all.length) return place.append(nothing("There is no kernel of this GPU to show."));
    for (const one of all) {
      place.append(made("details", {}, made("summary", {}, made("strong", {}, one.label ? `${one.label}: ` : "", one.name), made("br"),
          made("span", { class: "quiet" }, one.told)),
        made("div", {}, made("p", {}, one.where), made("h2", {}, "Decisions"), made("p", {}, made("code", {}, one.decided)),
          made("h2", {}, "Text"), one.text === null ? nothing(one.why) : made("pre", { tabindex: "0" }, one.text))));
    }
  }

  function summary(place) {
    const total = data.verdicts.reduce((sum, one) => sum + one.count, 0);
    if (!total) return place.append(nothing("The store is empty: no trial was made yet."));
    const most = Math.max(...data.verdicts.map((one) => one.count));
    for (const one of data.headlines) {
      place.append(made("section", { class: "headline", "aria-label": `The best kernel of ${one.gpu}` }, made("h2", {}, one.told), made("dl", {},
        ...one.facts.flatMap(([name, text]) => [made("dt", {}, name), made("dd", {}, text)]))));
    }
    if (data.schemes.length) place.append(made("h2", {}, "What was tried"), table(["GPU", "scheme", "trials", "usable", "least error", "left out, because"],
        data.schemes.map(([gpu, scheme, trials, right, error, why]) =>
          [gpu, scheme, trials.toLocaleString("en"), right.toLocaleString("en"), short(error), why]),
        ["", "", "number", "number", "number", ""]));
    place.append(made("h2", {}, "What became of the trials"), table(["verdict", "meaning", "trials", ""], data.verdicts
        .map((one) => [one.verdict, one.meaning, one.count.toLocaleString("en"), bar(one.count / most)]), ["", "", "number", "bars"]));
    const facts = [["device", (one) => one.device], ["cards", (one) => one.cards || ""], ["driver", (one) => one.driver],
        ["compiler", (one) => one.compiler],
      ["rows", (one) => one.trials.toLocaleString("en")], ["timed", (one) => one.timed.toLocaleString("en")],
          ["reference kernel", (one) => one.reference]];
    place.append(made("h2", {}, "Where"), table(["GPU", ...data.gpus.map((one) => one.name)], facts
        .map(([name, of]) => [name, ...data.gpus.map((one) => of(one) || "–")]), []));
  }

  // ---- the page

  const TABS = [["Summary", summary, false], ["Frontier", bySpeed, true], ["Sizes", bySize, false], ["Decisions", byDecision, false],
      ["Model", byModel, false], ["Rejected", byReason, false], ["Kernels", kernels, false]];
  const buttons = TABS.map(([name], at) => {
    const button = made("button", { role: "tab", type: "button", id: `tab-${name.toLowerCase()}`, "aria-controls": "panel" }, name);
    button.addEventListener("click", () => { chosen.tab = at; show(); });
    button.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (step) { chosen.tab = (at + step + TABS.length) % TABS.length; show(); buttons[chosen.tab].focus(); }
    });
    return button;
  });
  function show() {
    const panel = document.getElementById("panel");
    if (drawn) { Plotly.purge(drawn); drawn = null; }
    panel.replaceChildren();
    buttons.forEach((one, at) => { one.setAttribute("aria-selected", at === chosen.tab); one.tabIndex = at === chosen.tab ? 0 : -1; });
    panel.setAttribute("aria-labelledby", buttons[chosen.tab].id);
    filters(TABS[chosen.tab][2]);
    if (chosen.tab === 0) document.getElementById("filters").replaceChildren();
    TABS[chosen.tab][1](panel);
  }
  document.getElementById("tabs").append(...buttons);
  document.getElementById("about").textContent = data.about;
  document.getElementById("notes").append(...data.notes.map((one) => made("p", { class: "note" }, one)));
  chosen.size = usual();
  show();
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
  let was = narrow();
  window.addEventListener("resize", () => { if (narrow() !== was) { was = narrow(); show(); } });
})();
