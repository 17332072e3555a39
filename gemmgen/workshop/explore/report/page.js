"use strict";
(() => {
  const { made, plain, digits, short, percent, colour, narrow, mean, unique, table, sortable, bar, tiles } = elements;
  const data = JSON.parse(document.getElementById("data").textContent);
  const points = data.points.map((values) => Object.fromEntries(data.columns.map((name, at) => [name, values[at]])));
  const mixed = data.timed && points.some((one) => one.times === "predicted");
  const measure = mixed ? "measured (hollow: predicted)" : data.timed ? "measured" : "predicted";
  const isMeasured = (one) => one.times === "measured";
  const measuredFirst = (of) => of.some(isMeasured) ? of.filter(isMeasured) : of; // predicted times do not compete with measured ones

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
  // A list of one's own beside those of GPU and size; what was chosen stays while the page is open.
  const own = new Map();
  function ask(key, label, values, usual = 0) {
    const at = Math.min(own.get(key) ?? usual, values.length - 1);
    document.getElementById("filters").append(choice(label, values, at, (next) => { own.set(key, next); show(); }));
    return at;
  }
  function usual() {
    const counts = sizesOf(chosen.gpu).map((one) => one.points);
    return Math.max(0, counts.lastIndexOf(Math.max(...counts)));
  }

  // ---- plots

  let drawn = null;
  function plot(place, label, traces, layout) {
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
    drawn = made("div", { class: "plot", role: "group", "aria-label": label });
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
    for (let power = Math.floor(low) - 1; power <= Math.ceil(high); power++) tickvals.push(...digits.map((one) => Number(`${one}e${power}`)));
    const edge = Math.max(.15, .06 * (high - low));
    const ticktext = tickvals.map((one) => {
      if (one >= 1e-3 && one < 1e5) return String(one);
      const [digit, power] = one.toExponential().replace("+", "").split("e");
      return digit === "1" ? `10<sup>${power}</sup>` : `${digit}·10<sup>${power}</sup>`;
    });
    return { tickvals, ticktext, range: [low - edge, high + edge] };
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
    plot(place, "Error against speed", traces, { xaxis: { title: { text: `TFLOP/s, ${measure}` }, rangemode: "tozero" },
        yaxis: { title: { text: "relative error" }, type: "log", ...powers(all.map((one) => one.error)) } });
    // A rival that some kernel beats in both is named with it.
    const kernelsHere = measuredFirst(all.filter((one) => one.kind !== "rival"));
    const beaten = (rival) => kernelsHere.filter((one) => one.tflops > rival.tflops && one.error < rival.error).sort((a, b) => b.tflops - a.tflops)[0];
    const rows = [...front.map((one) => [one, "on the frontier"]), ...all.filter((one) => one.kind === "rival").map((one) => {
      const better = beaten(one);
      return [one, better ? `beaten in both by ${better.kernel}` : "no kernel is faster and closer"];
    })].sort((a, b) => b[0].tflops - a[0].tflops);
    place.append(made("h2", {}, "The frontier, and rivals"), sortable(["kernel", "scheme", "TFLOP/s", "µs", "times", "error", "place"],
        rows.map(([one, where]) => [one.kernel, one.scheme || one.kind, one.tflops, 1e6 * one.seconds, one.times, one.error, where]),
        ["name", "", "number", "number", "", "number", ""], "The frontier, and rivals"));
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
    plot(place, "Speed over size", traces, { xaxis: { title: { text: "cube root of m n k" }, type: "log", tickvals: ticks, ticktext: ticks.map(String) },
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
    place.append(made("h2", {}, "The fastest at each size, whatever its error"), sortable(header, rows, kinds, "The fastest at each size"));
  }

  // ---- heat maps: over m, n and k, or over two decisions

  const MOST_VALUES = 30;
  const PLAIN_AXES = ["m", "n", "k", "layout", "scheme", "design"];
  // The places of an axis: [label, whether a point lies there] in order. Many numbers share a place with all of the same power of two.
  function places(of, axis) {
    const values = unique(of.map(axis.value)).filter((one) => one !== undefined && one !== "");
    if (axis.number && values.length > (narrow() ? 7 : 14)) {
      const power = (value) => Math.floor(Math.log2(Math.max(1, value)));
      return unique(values.map(power)).sort((a, b) => a - b)
        .map((one) => [`${2 ** one} to ${2 ** (one + 1) - 1}`, (point) => power(axis.value(point)) === one]);
    }
    const sorted = axis.number ? values.sort((a, b) => a - b) : values.sort((a, b) => String(a).localeCompare(String(b), "en", { numeric: true }));
    return sorted.slice(0, MOST_VALUES).map((one) => [String(one), (point) => axis.value(point) === one]);
  }
  function byPlace(place) {
    const every = here().filter((one) => one.kind === "kernel" && one.tflops !== null);
    const sized = new Map();
    for (const one of every) sized.set(one.size, [...(sized.get(one.size) || []), one]);
    const all = [...sized.values()].flatMap(measuredFirst);
    const axes = [...PLAIN_AXES.map((name) => ({ name, number: "mnk".includes(name), value: (one) => one[name] })),
      ...data.decisions.map((name) => ({ name: name.replaceAll("_", " "), value: (one) => Object.hasOwn(one.decided, name) ? one.decided[name] : undefined }))]
      .filter((axis) => unique(all.map(axis.value)).filter((one) => one !== undefined && one !== "").length > 1);
    lead(place, `Each cell is what the kernels that lie there reach, ${measure}. The share of the best is the geometric mean, over the cell's sizes, of`,
      "its fastest kernel's speed over that of the fastest of all: over two decisions it says what they cost.");
    if (axes.length < 2) return place.append(nothing("The kernels differ in fewer than two of their size and decisions, so there is no map."));
    const best = new Map(), rival = new Map();
    for (const one of all) best.set(one.size, Math.max(best.get(one.size) || 0, one.tflops));
    for (const one of here()) if (one.kind === "rival" && one.tflops !== null) rival.set(one.size, Math.max(rival.get(one.size) || 0, one.tflops));
    const fastest = (of) => { const found = new Map(); for (const one of of) if (!found.has(one.size) || one.tflops > found.get(one.size).tflops)
      found.set(one.size, one); return [...found.values()]; };
    const ratios = (of, other) => { const found = fastest(of).filter((one) => other.has(one.size)).map((one) => one.tflops / other.get(one.size));
      return found.length ? mean(found) : null; };
    const MEASURES = [["fastest, TFLOP/s", (of) => Math.max(...of.map((one) => one.tflops))], ["share of the best", (of) => ratios(of, best)],
      ["least error", (of) => { const known = of.map((one) => one.error).filter((one) => one !== null); return known.length ? Math.min(...known) : null; }],
      ...(rival.size ? [["times the best rival's speed", (of) => ratios(of, rival)]] : [])];
    const names = axes.map((one) => one.name), tried = unique(all.map((one) => one.scheme)).sort();
    const across = axes[ask("map x", "Across", names)], down = axes[ask("map y", "Down", names, 1)];
    const [title, valueOf] = MEASURES[ask("map of", "Colour", MEASURES.map(([name]) => name), axes.slice(0, 2).every((one) => one.number) ? 0 : 1)];
    const scheme = tried.length > 1 ? ask("map scheme", "Scheme", ["all", ...tried]) : 0;
    const third = across.number && down.number && across !== down ? axes.find((one) => one.number && one !== across && one !== down) : undefined;
    const slices = third ? places(all, third) : [];
    const slice = slices.length > 1 ? ask("map slice", third.name, ["all", ...slices.map(([label]) => label)]) : 0;
    const some = all.filter((one) => (!scheme || one.scheme === tried[scheme - 1]) && (!slice || slices[slice - 1][1](one)));
    const columns = places(some, across), rows = places(some, down), cells = [];
    const z = [], text = [], hover = [];
    for (const [row, inRow] of rows) {
      const line = some.filter(inRow), found = columns.map(([column, inColumn]) => {
        const of = line.filter(inColumn), value = of.length ? valueOf(of) : null;
        if (value === null) return null;
        const first = of.reduce((a, b) => b.tflops > a.tflops ? b : a);
        cells.push([column, row, value, of.length, unique(of.map((one) => one.size)).length, first.kernel]);
        return [value, [`${plain(across.name)} ${plain(column)}, ${plain(down.name)} ${plain(row)}`, `${title}: ${value < 1e-3 ? short(value) : digits(value)}`,
          `fastest: ${plain(first.kernel)}`].join("<br>")];
      });
      z.push(found.map((one) => one && (title === "least error" ? Math.log10(one[0]) : one[0])));
      text.push(found.map((one) => one ? one[0] < 1e-3 ? short(one[0]) : digits(one[0], 2) : ""));
      hover.push(found.map((one) => one ? one[1] : ""));
    }
    const brief = (label) => plain(label.length > 16 ? `${label.slice(0, 15)}…` : label);
    const marks = (list) => ({ tickvals: list.map((_, at) => at), ticktext: list.map(([label]) => brief(label)) });
    const values = z.flat().filter((one) => one !== null), low = Math.min(...values), high = Math.max(...values);
    const few = columns.length <= (narrow() ? 6 : 14);
    plot(place, `${title} over ${across.name} and ${down.name}`, [{ type: "heatmap", z, text, customdata: hover, hovertemplate: "%{customdata}<extra></extra>",
        hoverongaps: false, xgap: 2, ygap: 2, colorscale: "Viridis", reversescale: title === "least error",
        ...(few ? { texttemplate: "%{text}" } : {}),
        colorbar: { thickness: 12, ...(title === "least error" ? { tickvals: [low, high], ticktext: [low, high].map((one) => short(10 ** one)) } : {}) } }],
      { xaxis: { title: { text: plain(across.name) }, ...marks(columns), showgrid: false, zeroline: false }, showlegend: false,
        yaxis: { title: { text: plain(down.name) }, ...marks(rows), showgrid: false, zeroline: false } });
    if (data.shown < data.plottable) place.append(made("p", { class: "quiet" }, "Of the points that are drawn."));
    place.append(made("h2", {}, "Its cells"), sortable([across.name, down.name, title, "points", "sizes", "fastest kernel"], cells,
        ["size", "size", "number", "number", "number", "name"], "Cells of the map"));
  }

  // ---- the roofline

  function byRoof(place) {
    const gpu = data.gpus.find((one) => one.name === chosen.gpu), all = here().filter((one) => one.tflops !== null && one.intensity > 0);
    lead(place, "Speed over FLOP a byte of A, B and C, each moved once. The slope is the data sheet's device memory; each level is the data sheet's rate of a",
      `scheme's words over its products. Points are the fastest kernels of each scheme at each size, ${measure}, and rivals.`);
    if (!all.length) return place.append(nothing("No row of this GPU has a time."));
    const best = new Map();
    for (const one of all) {
      const key = JSON.stringify([one.size, one.kind, one.kind === "rival" ? one.kernel : one.scheme]), other = best.get(key);
      if (!other || isMeasured(one) > isMeasured(other) || isMeasured(one) === isMeasured(other) && one.tflops > other.tflops) best.set(key, one);
    }
    const points = [...best.values()], roofs = gpu.roofs, levels = new Map(roofs ? roofs.units : []);
    const left = Math.min(...points.map((one) => one.intensity)) / 2, right = Math.max(...points.map((one) => one.intensity),
      ...(roofs ? [Math.max(...levels.values()) / roofs.memory] : [])) * 2;
    const traces = [], top = roofs ? Math.max(...levels.values(), 1e-9) : 0;
    if (roofs) traces.push({ type: "scatter", mode: "lines", name: `device memory, ${digits(roofs.memory)} TB/s`, x: [left, top / roofs.memory],
        y: [left * roofs.memory, top], line: { color: colour("quiet"), width: 2 }, hoverinfo: "skip" });
    for (const [scheme, level] of levels) traces.push({ type: "scatter", mode: "lines", legendgroup: scheme, showlegend: !schemes.includes(scheme),
        name: `${plain(scheme)}, ${digits(level)}`, x: [level / roofs.memory, right], y: [level, level], line: { color: schemes.includes(scheme)
          ? colourOf(scheme) : colour("faint"), width: 1.5, dash: "dot" }, hovertemplate: `${plain(scheme)}: ${digits(level)} TFLOP/s<extra></extra>`,
    });
    for (const scheme of schemes) {
      const of = points.filter((one) => one.kind === "kernel" && one.scheme === scheme);
      if (of.length) traces.push(scatter(of, (one) => one.intensity, (one) => one.tflops, { name: plain(scheme || "kernels"), legendgroup: scheme,
          marker: { color: colourOf(scheme), symbol: of.map((one) => symbolOf(scheme) + (mixed && !isMeasured(one) ? "-open" : "")), size: 7, opacity: .8 } }));
    }
    rivals.forEach((name, at) => {
      const of = points.filter((one) => one.kind === "rival" && one.kernel === name);
      if (of.length) traces.push(scatter(of, (one) => one.intensity, (one) => one.tflops,
          { name: plain(name), marker: { color: colour("rival"), symbol: MARKS[at % MARKS.length], size: 9 } }));
    });
    const ys = [...points.map((one) => one.tflops), ...levels.values()];
    plot(place, "Roofline", traces, { xaxis: { title: { text: "FLOP a byte" }, type: "log", ...powers([left, right]) },
        yaxis: { title: { text: `TFLOP/s, ${measure}` }, type: "log", ...powers(ys) } });
    if (!roofs) return place.append(nothing("This version of gemmgen has no description of this GPU, so there are no roofs."));
    const rows = points.filter((one) => one.kind === "kernel" && levels.has(one.scheme)).map((one) => {
      const memory = one.intensity * roofs.memory, level = levels.get(one.scheme), roof = Math.min(memory, level);
      return [one.size, one.scheme, one.intensity, one.tflops, roof, 100 * one.tflops / roof, memory < level ? "memory" : "units", one.times, one.kernel];
    }).sort((a, b) => a[5] - b[5]);
    place.append(made("h2", {}, "How near to its roof, the furthest first"), sortable(["size", "scheme", "FLOP a byte", "TFLOP/s", "roof", "% of it", "roof of",
      "times", "kernel"], rows, ["size", "", "number", "number", "number", "number", "", "", "name"], "Shares of the roof"));
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
    plot(place, "Decisions", traces, { xaxis: rows ? value : along, yaxis: rows ? along : value, annotations, shapes,
        legend: { orientation: "h", y: -.02, yanchor: "top", x: 0, traceorder: "reversed" }, margin: { l: 12, r: 12, t: 12, b: 12 },
      ...(rows ? { height: 150 + 64 * (last + 1) } : {}) });
    if (rows) drawn.style.height = `${150 + 64 * (last + 1)}px`;
  }

  function byModel(place) {
    const all = here().filter((one) => one.kind === "kernel" && one.verdict === "timed" && one.predicted !== null);
    lead(place, "The model's time against the measured one. On the line they agree; above it the kernel took longer than predicted.",
      "Told are the mean error and, as the bias, the mean with its sign, of all rows.");
    if (!all.length) return place.append(nothing(data.timed ? "No timed kernel of this GPU has a predicted time."
        : "Nothing was timed, so there is nothing to hold predictions against."));
    const designs = unique(all.map((one) => one.design)).sort(), seconds = all.flatMap((one) => [one.seconds, one.predicted]);
    const low = 1e6 * Math.min(...seconds) / 1.3, high = 1e6 * Math.max(...seconds) * 1.3;
    const traces = [{ type: "scatter", mode: "lines", name: "equal", x: [low, high], y: [low, high],
        line: { color: colour("quiet"), width: 1.5, dash: "dash" }, hoverinfo: "skip" },
      ...designs.map((design, at) => scatter(all.filter((one) => one.design === design), (one) => 1e6 * one.predicted, (one) => 1e6 * one.seconds,
          { name: plain(design || "kernels"), marker: { color: colour(`c${at % 8}`), size: 6, opacity: .7 } }))];
    const { designs: figures, outliers, more } = data.model[chosen.gpu];
    if (outliers.length) traces.push({ type: "scatter", mode: "markers", name: "outliers", x: outliers.map((one) => one[3]), y: outliers.map((one) => one[4]),
        marker: { color: "rgba(0,0,0,0)", size: 14, line: { color: colour("c1"), width: 2 } }, text: outliers.map(([kernel, size,,,, ratio]) =>
          `${plain(kernel)}<br>${plain(size)}: ${digits(ratio)} times as long as predicted`), hovertemplate: "%{text}<extra></extra>" });
    const log = { type: "log", dtick: 1 };
    plot(place, "Measured against predicted time", traces, { xaxis: { title: { text: "predicted, µs" }, ...log },
        yaxis: { title: { text: "measured, µs" }, ...log } });
    place.append(sortable(["design", "kernels", "error", "bias", "within 10 %"],
        figures.map(([name, count, error, bias, near]) => [name || "–", count, percent(error), percent(bias), `${(100 * near).toFixed(0)} %`]),
        ["", "number", "number", "number", "number"], "The model by design"));
    place.append(made("h2", {}, "Outliers"), outliers.length ? made("p", { class: "quiet" }, "Kernels whose measured time over the predicted one lies",
        " far from their design's median: by more than 10 % and three standard deviations. Counts are of all rows.",
        more ? ` ${more} more are not listed.` : "")
      : nothing("No kernel lies far from its design's median."));
    if (outliers.length) place.append(sortable(["kernel", "size", "design", "predicted µs", "measured µs", "ratio", "from the median"], outliers,
        ["name", "size", "", "number", "number", "number", "number"], "Outliers"));
  }

  // ---- two stores side by side

  function sideBySide(place) {
    const { names: [one, other], told: lines, verdicts } = data.beside;
    lead(place, `The other is ${other}, beside ${one}. Points above 1 are faster there. Measured times stand beside measured ones, predicted beside predicted;`,
      "a GPU that both have is compared with itself. Times within 2 %, or within their spread, count as equal.");
    for (const line of lines) place.append(made("p", {}, line));
    const lists = [["the fastest at each size", data.beside.sizes], ["equal kernels", data.beside.kernels]];
    const [name, pairs] = lists[ask("beside", "Compare", lists.map(([label]) => label), lists[0][1].length ? 0 : 1)];
    if (!pairs.length) return place.append(nothing(`There is no pair of ${name}: both need times at the same sizes, of the same kind.`));
    const found = unique(pairs.map((pair) => pair[2]));
    const traces = found.map((scheme, at) => {
      const of = pairs.filter((pair) => pair[2] === scheme);
      return { type: "scatter", mode: "markers", name: plain(scheme || "kernels"), x: of.map((pair) => pair[1]), y: of.map((pair) => pair[11]),
        text: of.map((pair) => `${plain(pair[0])}<br>${plain(one)}: ${digits(pair[6])} TFLOP/s<br>${plain(other)}: ${digits(pair[9])} TFLOP/s`),
        hovertemplate: "%{text}<extra></extra>", marker: { color: colour(`c${at % 8}`), size: 8,
          symbol: of.map((pair) => pair[12] ? "circle" : "circle-open") } };
    });
    const edges = pairs.map((pair) => pair[1]), ratios = pairs.map((pair) => pair[11]);
    traces.unshift({ type: "scatter", mode: "lines", name: "equal", x: [Math.min(...edges) / 1.1, Math.max(...edges) * 1.1], y: [1, 1],
        line: { color: colour("quiet"), width: 1.5, dash: "dash" }, hoverinfo: "skip" });
    plot(place, `Speed of ${other} over ${one}`, traces, { xaxis: { title: { text: "cube root of m n k" }, type: "log", ...powers(edges) },
        yaxis: { title: { text: "times as fast" }, type: "log", ...powers([...ratios, .9, 1.1]) } });
    place.append(made("h2", {}, `Pairs of ${name}`), sortable(
        ["size", "scheme", "GPU", "times", "times as fast", "", ...["TFLOP/s", "error", "kernel"].flatMap((what) => [`${what}, ${one}`, `${what}, ${other}`])],
        pairs.map(([size,, scheme, gpu, times, kernel, speed, error, second, its, itsError, ratio, how]) =>
          [size, scheme, gpu, times, ratio, ["slower", "equal", "faster"][how + 1], speed, its, error, itsError, kernel, second]),
        ["size", "", "", "", "number", "", "number", "number", "number", "number", "name", "name"], "Pairs"));
    if (verdicts.length) place.append(made("h2", {}, "Equal kernels that ended otherwise"), sortable([one, other, "kernels"], verdicts,
        ["", "", "number"], "Verdicts that changed"));
  }

  function byReason(place) {
    const all = data.rejected.filter((one) => one.gpu === chosen.gpu), most = Math.max(1, ...all.map((one) => one.count));
    lead(place, "Candidates that became no right kernel, by the inequality that they break or by what went wrong, each with one kernel's numbers.",
      "Counts are of all rows.");
    if (!all.length) return place.append(nothing("No candidate of this GPU was rejected."));
    place.append(sortable(["verdict", "reason", "candidates", ""], all.map((one) => [one.verdict, one.reason, one.count, bar(one.count / most)]),
        ["", "name", "number", "bars"], "Rejected candidates"));
  }

  function kernels(place) {
    const all = data.kernels.filter((one) => one.gpu === chosen.gpu);
    place.append(made("p", { class: "quiet" }, data.kernels_told));
    if (data.rules.length) {
      for (const part of data.rules.filter((one) => one.gpu === chosen.gpu)) {
        place.append(made("h2", {}, `Dispatch for layout ${part.layout}`),
          table([part.by === "rules" ? "where" : "the least of", "kernel"], part.rules, ["", "name"], `Dispatch for layout ${part.layout}`));
        if (part.regret) place.append(made("p", {}, part.regret));
      }
      place.append(made("h2", {}, "The kernels"));
    }
    if (!all.length) return place.append(nothing("There is no kernel of this GPU to show."));
    for (const one of all) {
      place.append(made("details", {}, made("summary", {}, made("strong", {}, one.label ? `${one.label}: ` : "", one.name), made("br"),
          made("span", { class: "quiet" }, one.told)),
        made("div", {}, made("p", {}, one.where), made("h2", {}, "Decisions"), made("p", {}, made("code", {}, one.decided)),
          one.tiles.length ? tiles(one.tiles) : null, made("h2", {}, "Text"),
          one.text === null ? nothing(one.why) : made("pre", { tabindex: "0" }, one.text))));
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
    if (data.schemes.length) place.append(made("h2", {}, "What was tried"), sortable(["GPU", "scheme", "trials", "usable", "least error",
        "left out, because"], data.schemes, ["", "", "number", "number", "number", ""], "Schemes"));
    place.append(made("h2", {}, "What became of the trials"), sortable(["verdict", "meaning", "trials", ""], data.verdicts
        .map((one) => [one.verdict, one.meaning, one.count, bar(one.count / most)]), ["", "", "number", "bars"], "Verdicts"));
    const facts = [["device", (one) => one.device], ["cards", (one) => one.cards || ""], ["driver", (one) => one.driver],
        ["compiler", (one) => one.compiler],
      ["rows", (one) => one.trials.toLocaleString("en")], ["timed", (one) => one.timed.toLocaleString("en")],
          ["reference kernel", (one) => one.reference]];
    place.append(made("h2", {}, "Where"), table(["GPU", ...data.gpus.map((one) => one.name)], facts
        .map(([name, of]) => [name, ...data.gpus.map((one) => of(one) || "–")]), [], "Where"));
  }

  // ---- the page

  // [name, what draws it, whether it is of one size, whether it is of one GPU]
  const TABS = [["Summary", summary, false, false], ["Frontier", bySpeed, true, true], ["Sizes", bySize, false, true], ["Map", byPlace, false, true],
    ["Roofline", byRoof, false, true], ["Decisions", byDecision, false, true], ["Model", byModel, false, true], ["Rejected", byReason, false, true],
    ["Kernels", kernels, false, true], ...(data.beside ? [["Beside", sideBySide, false, false]] : [])];
  const buttons = TABS.map(([name], at) => {
    const button = made("button", { role: "tab", type: "button", id: `tab-${name.toLowerCase()}`, "aria-controls": "panel" }, name);
    button.addEventListener("click", () => { chosen.tab = at; show(); });
    button.addEventListener("keydown", (event) => {
      const next = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: TABS.length - 1 }[event.key];
      if (next === undefined) return;
      event.preventDefault();
      chosen.tab = (next + TABS.length) % TABS.length;
      show();
      buttons[chosen.tab].focus();
    });
    return button;
  });
  // What is looked at stands in the address behind #, so that a page that is loaded again, or passed on, shows it.
  function kept() {
    const size = sizesOf(chosen.gpu)[chosen.size];
    const words = new URLSearchParams({ tab: TABS[chosen.tab][0], gpu: chosen.gpu, size: size ? size.label : "", ...Object.fromEntries(own) });
    window.history.replaceState(null, "", `#${words}`);
  }
  function recalled() {
    const words = new URLSearchParams(window.location.hash.slice(1));
    chosen.tab = Math.max(0, TABS.findIndex(([name]) => name === words.get("tab")));
    if (data.gpus.some((one) => one.name === words.get("gpu"))) chosen.gpu = words.get("gpu");
    const size = sizesOf(chosen.gpu).findIndex((one) => one.label === words.get("size"));
    chosen.size = size < 0 ? usual() : size;
    for (const key of ["map x", "map y", "map of", "map scheme", "map slice", "beside"]) {
      if (/^\d{1,3}$/.test(words.get(key))) own.set(key, Number(words.get(key)));
    }
  }
  function show() {
    const panel = document.getElementById("panel"), [, draw, bySize, byGpu] = TABS[chosen.tab];
    if (drawn) { Plotly.purge(drawn); drawn = null; }
    panel.replaceChildren();
    buttons.forEach((one, at) => { one.setAttribute("aria-selected", at === chosen.tab); one.tabIndex = at === chosen.tab ? 0 : -1; });
    panel.setAttribute("aria-labelledby", buttons[chosen.tab].id);
    filters(bySize);
    if (!byGpu) document.getElementById("filters").replaceChildren();
    draw(panel);
    kept();
  }
  document.getElementById("tabs").append(...buttons);
  document.getElementById("about").textContent = data.about;
  document.getElementById("notes").append(...data.notes.map((one) => made("p", { class: "note" }, one)));
  recalled();
  show();
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
  let was = narrow();
  window.addEventListener("resize", () => { if (narrow() !== was) { was = narrow(); show(); } });

  // A page of a study that runs loads itself again, but not while somebody reads a kernel's text or filters a table.
  if (data.live) {
    const button = made("button", { type: "button", id: "live", "aria-pressed": "false" }, "Pause");
    const busy = () => button.getAttribute("aria-pressed") === "true" || document.hidden || document.querySelector("details[open]")
        || [...document.querySelectorAll("input")].some((one) => one.value) || document.activeElement instanceof HTMLSelectElement;
    button.addEventListener("click", () => button.setAttribute("aria-pressed", button.getAttribute("aria-pressed") !== "true"));
    document.getElementById("notes").append(made("p", { class: "quiet" }, `Live: the page loads itself again every ${data.live} s. `, button));
    window.setInterval(() => { if (!busy()) window.location.reload(); }, 1000 * data.live);
  }
})();
