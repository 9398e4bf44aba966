// The front end of the explorer: draws what the kernel computed and tells it what was selected. No other file is loaded.
// Texts are set as text and never as HTML, so that nothing in a log is run.

const SVG = "http://www.w3.org/2000/svg";
const CIVIDIS = [[0, 34, 78], [53, 69, 108], [102, 105, 112], [148, 142, 119], [200, 184, 102], [254, 232, 56]];
const PARTS = { parse_us: "#e69f00", bind_us: "#000000", connect_us: "#cc79a7", parent_execute_us: "#0072b2",
  child_us: "#009e73", between_us: "#d55e00" };
const KINDS = { statement: "#6b7280", phase: "#0072b2", task: "#d55e00", remote: "#009e73", local: "#56b4e9", connect: "#cc79a7" };
const UNDER_WAY = { "lock wait": "#a3260b", checkpoint: "#8a6d00", plan: "#5b4a9c" };
const FILTERS = { run: "run", node: "node", kind: "kind", executed: "executed", shard: "shard", child: "child on" };
const COLUMNS = [["elapsed_us", "at [s]"], ["node", "node"], ["statement_kind", "kind"], ["executed", "executed"],
  ["shard_id", "shard"], ["tasks", "tasks"], ["total_us", "T [ms]"], ["parent_us", "parent [ms]"],
  ["between_us", "between [ms]"], ["child_us", "child [ms]"]];
const SORTED = new Set(["elapsed_us", "tasks", "total_us", "parent_us", "between_us", "child_us"]);
const MOST_UNDER_WAY = 8;
const MAP = { left: 66, top: 8, width: 1100, row: 11, bottom: 34 };

function html(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function svg(name, attributes = {}, text = "") {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text) made.textContent = text;
  return made;
}

function titled(element, text) {
  element.append(svg("title", {}, text));
  return element;
}

// A figure that is scrolled where the window is narrower than it can be read.
const wide = (figure) => html("div", { class: "ca-figure" }, figure);

const number = (value, digits = 3) => value === null || value === undefined ? "" :
  value.toLocaleString("en", { maximumFractionDigits: digits });
const statements = (n) => `${number(n)} ${n === 1 ? "statement" : "statements"}`;
const milliseconds = (us) => us === null || us === undefined ? "" : number(us / 1000);
const parsed = (model, name) => JSON.parse(model.get(name) || "{}");

function colour(share) {
  const place = Math.min(Math.max(share, 0), 1) * (CIVIDIS.length - 1);
  const low = Math.min(Math.floor(place), CIVIDIS.length - 2);
  const mixed = CIVIDIS[low].map((one, i) => Math.round(one + (CIVIDIS[low + 1][i] - one) * (place - low)));
  return `rgb(${mixed.join(",")})`;
}

function howToGet(...lines) {
  return html("details", {}, html("summary", {}, "the same rows in Python or SQL"),
    ...lines.map((line) => html("pre", {}, line)));
}

function filters(model, choices, selection, ask) {
  const row = html("div", { class: "ca-filters" });
  for (const name of Object.keys(FILTERS)) {
    const list = html("select", { "aria-label": `filter by ${name}` }, html("option", { value: "" }, "all"));
    for (const one of choices[name] || [])
      list.append(html("option", { value: one.value }, `${one.value} (${number(one.n)})`));
    list.value = String(selection[name] ?? "");
    list.disabled = Boolean(model.frozen);
    list.addEventListener("change", () => ask({ ...filtersOf(selection), [name]: list.value }));
    row.append(html("label", {}, FILTERS[name], list));
  }
  return row;
}

const filtersOf = (selection) => Object.fromEntries(Object.keys(FILTERS).map((name) => [name, selection[name]]));

function heatMap(model, heat, selection, ask) {
  const rows = Math.max(heat.limits_us.length - 1, 1), columns = Math.max(heat.columns, 1);
  const height = rows * MAP.row, cell = MAP.width / columns;
  const figure = svg("svg", { viewBox: `0 0 ${MAP.left + MAP.width + 12} ${MAP.top + height + MAP.bottom}`, role: "img",
    "aria-label": "statements by time in the run and time taken" });
  const x = (column) => MAP.left + column * cell, y = (row) => MAP.top + (rows - row) * MAP.row;
  const field = svg("rect", { x: MAP.left, y: MAP.top, width: MAP.width, height, class: "ca-field" });
  figure.append(field);
  const most = Math.log(1 + Math.max(1, ...heat.cells.map((one) => one[2])));
  for (const [column, row, n] of heat.cells) {
    const mark = svg("rect", { x: x(column), y: y(row + 1), width: Math.max(cell - 0.5, 0.5), height: MAP.row - 0.5,
      fill: colour(Math.log(1 + n) / most), "pointer-events": "none", class: "ca-cell" });
    figure.append(mark);
  }
  axes(figure, heat, rows, columns, x, y, height);
  const shown = svg("rect", { class: "ca-brush", visibility: "hidden" });
  figure.append(shown);
  const place = ([c0, r0, c1, r1]) => {
    for (const [key, value] of Object.entries({ x: x(c0), y: y(r1), width: x(c1) - x(c0), height: y(r0) - y(r1),
      visibility: "visible" })) shown.setAttribute(key, value);
  };
  const brushed = rectangleOf(heat, selection, rows, columns);
  if (brushed) place(brushed);
  if (!model.frozen) brushing(figure, field, heat, { rows, columns, cell, place, ask, selection });
  return figure;
}

// The shortest step of 1, 2 or 5 times a power of ten that divides a length into at most so many parts.
function roundStep(length, most) {
  const power = 10 ** Math.floor(Math.log10(length / most));
  return [1, 2, 5, 10].map((lead) => lead * power).find((step) => length / step <= most) ?? 10 * power;
}

// Round times between two limits: powers of ten, and twice and five times these where there are few.
function roundTimes(least, most) {
  const leads = most / least > 1000 ? [1] : [1, 2, 5], times = [];
  for (let power = 10 ** Math.floor(Math.log10(least)); power <= most; power *= 10)
    times.push(...leads.map((lead) => lead * power).filter((time) => time >= least && time <= most));
  return times;
}

function axes(figure, heat, rows, columns, x, y, height) {
  const limits = heat.limits_us;
  if (limits.length > 1)
    for (const time of roundTimes(limits[0] || limits[1], limits.at(-1))) {
      const row = Math.max(limits.findLastIndex((limit) => limit <= time && limit > 0), 0);
      // Rows are equal on a logarithmic scale.
      const part = row + 1 < limits.length ? Math.log(time / limits[row]) / Math.log(limits[row + 1] / limits[row]) : 0;
      figure.append(svg("text", { x: MAP.left - 6, y: y(row + part) + 4, "text-anchor": "end" }, milliseconds(time)));
    }
  const seconds = columns * heat.width_s, step = roundStep(seconds, 10);
  for (let tick = 0; tick * step <= seconds; tick += 1)
    figure.append(svg("text", { x: x(tick * step / heat.width_s), y: MAP.top + height + 14, "text-anchor": "middle" },
      number(Number((tick * step).toPrecision(6)))));
  figure.append(svg("text", { x: MAP.left + MAP.width / 2, y: MAP.top + height + 29, "text-anchor": "middle" },
    "seconds since the first statement of the run ended"));
  figure.append(svg("text", { x: 12, y: MAP.top + height / 2, "text-anchor": "middle",
    transform: `rotate(-90 12 ${MAP.top + height / 2})` }, "T [ms]"));
}

function rectangleOf(heat, selection, rows, columns) {
  const sides = ["since_s", "until_s", "fastest_us", "slowest_us"].map((name) => selection[name]);
  if (sides.every((side) => side === null || side === undefined)) return null;
  const row = (limit, otherwise) => {
    const found = heat.limits_us.findIndex((one) => one >= limit);
    return limit === null || limit === undefined || found < 0 ? otherwise : found;
  };
  const column = (second, otherwise) => Math.min(columns, (second ?? otherwise * heat.width_s) / heat.width_s);
  return [column(sides[0], 0), row(sides[2], 0), column(sides[1], columns), row(sides[3], rows)];
}

function brushing(figure, field, heat, map) {
  const cellAt = (event) => {
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(figure.getScreenCTM().inverse());
    const column = Math.floor((point.x - MAP.left) / map.cell);
    const row = map.rows - 1 - Math.floor((point.y - MAP.top) / MAP.row);
    return [Math.min(Math.max(column, 0), map.columns - 1), Math.min(Math.max(row, 0), map.rows - 1)];
  };
  const spanned = (a, b) => [Math.min(a[0], b[0]), Math.min(a[1], b[1]), Math.max(a[0], b[0]) + 1, Math.max(a[1], b[1]) + 1];
  let from = null;
  field.addEventListener("pointerdown", (event) => {
    from = cellAt(event);
    field.setPointerCapture(event.pointerId);
    map.place(spanned(from, from));
  });
  field.addEventListener("pointermove", (event) => { if (from) map.place(spanned(from, cellAt(event))); });
  field.addEventListener("pointerup", (event) => {
    if (!from) return;
    const [c0, r0, c1, r1] = spanned(from, cellAt(event));
    from = null;
    const seconds = (column) => Number((column * heat.width_s).toFixed(6));
    map.ask({ ...map.selection, since_s: seconds(c0), until_s: seconds(c1), fastest_us: heat.limits_us[r0],
      slowest_us: heat.limits_us[r1] });
  });
}

function partBar(parts, longest) {
  const bar = svg("svg", { viewBox: "0 0 190 12", preserveAspectRatio: "none" });
  let x = 0;
  for (const [name, fill] of Object.entries(PARTS)) {
    const width = 190 * Math.max(parts[name] || 0, 0) / longest;
    if (width > 0) bar.append(titled(svg("rect", { x, y: 1, width, height: 10, fill }), `${name}: ${milliseconds(parts[name])} ms`));
    x += width;
  }
  return bar;
}

function statementTable(model, view, ask, open, opened) {
  const head = html("tr"), body = html("tbody");
  for (const [name, word] of COLUMNS) {
    if (model.frozen || !SORTED.has(name)) { head.append(html("th", {}, word)); continue; }
    const down = view.selection.order === name ? !view.selection.descending : true;
    const sign = view.selection.order !== name ? "" : view.selection.descending ? " ↓" : " ↑";
    const button = html("button", { type: "button" }, word + sign);
    button.addEventListener("click", () => ask({ ...view.selection, order: name, descending: down }));
    head.append(html("th", {}, button));
  }
  head.prepend(html("th", {}, ""));
  head.append(html("th", { class: "ca-left" }, "parts of T"));
  const longest = Math.max(1, ...view.rows.map((row) => row.total_us));
  for (const row of view.rows) {
    const line = html("tr", row.trace_id === opened ? { class: "ca-open-row" } : {});
    for (const [name] of COLUMNS) {
      const value = row[name];
      const text = name === "elapsed_us" ? number(value / 1e6) : name.endsWith("_us") ? milliseconds(value) :
        value === null ? "" : String(value);
      line.append(html("td", {}, text));
    }
    line.append(html("td", { class: "ca-left" }, row.parts ? partBar(row.parts, longest) : "not known"));
    const button = html("button", { type: "button", "data-trace": row.trace_id }, "open");
    button.addEventListener("click", () => open(row.trace_id));
    line.prepend(html("td", {}, model.frozen && !model.has(row.trace_id) ? "" : button));
    body.append(line);
  }
  return html("div", { class: "ca-scroll" }, html("table", {}, html("thead", {}, head), body));
}

function legend(view) {
  const line = html("p", { class: "ca-soft" }, "Parts of T:");
  for (const part of view.parts) {
    const key = html("span", { class: "ca-key" });
    key.style.background = PARTS[part.name];
    line.append(key, part.word);
  }
  return line;
}

function percentileTable(view) {
  const head = html("tr", {}, ...["part", "percentile", "selected [ms]", "rest [ms]", "n selected", "n rest"].map((word) =>
    html("th", {}, word)));
  const rows = view.percentiles.map((row) => html("tr", {}, ...[row.part, `p${row.percentile}`,
    row.selected_us === null ? (row.selected_n ? "too few" : "–") : milliseconds(row.selected_us),
    row.rest_us === null ? (row.rest_n ? "too few" : "–") : milliseconds(row.rest_us), number(row.selected_n), number(row.rest_n)].map((text) =>
    html("td", {}, text))));
  return html("div", { class: "ca-scroll" }, html("table", {}, html("thead", {}, head), html("tbody", {}, ...rows)));
}

function waterfall(detail) {
  const left = 380, width = 760, row = 20;
  const ends = detail.spans.map((one) => Math.max(one.offset_us + one.length_us, one.high_us ?? 0));
  const scale = width / Math.max(1, ...ends);
  const others = shownUnderWay(detail);
  const figure = svg("svg", { viewBox: `0 0 ${left + width + 80} ${(detail.spans.length + others.length) * row + 8}`,
    role: "img", "aria-label": "spans of the statement over time, and what else was under way" });
  detail.spans.forEach((one, i) => {
    const y = i * row + 4, length = Math.max(one.length_us * scale, 1);
    const label = `node ${one.node}  ${one.label.replaceAll("\u2003", "\u00a0\u00a0\u00a0")}`;
    figure.append(titled(svg("text", { x: 0, y: y + 12 }, label.length > 60 ? `${label.slice(0, 59)}…` : label), label));
    figure.append(titled(svg("rect", { x: left + one.offset_us * scale, y, width: length, height: row - 6,
      fill: KINDS[one.kind] }), `${one.kind}, match ${one.match}, byte ${one.byte_offset} of ${one.path}`));
    if (one.low_us !== null && one.low_us !== undefined)
      figure.append(titled(svg("line", { x1: left + one.low_us * scale, x2: left + one.high_us * scale, y1: y + row - 5,
        y2: y + row - 5, stroke: "#1f2933", "stroke-width": 1.5 }), "where it can have run, by its node's clock"));
    figure.append(svg("text", { x: left + one.offset_us * scale + length + 4, y: y + 11 },
      one.duration_us === null ? "" : `${milliseconds(one.duration_us)} ms`));
  });
  others.forEach((one, i) => {
    const y = (detail.spans.length + i) * row + 4;
    // What began before the statement or goes on after it is cut at the edge of the figure.
    const from = Math.min(Math.max(one.offset_us * scale, 0), width);
    const to = Math.min(Math.max((one.offset_us + one.length_us) * scale, from + 1), width);
    const open = `${one.offset_us < 0 ? "◂ " : ""}${milliseconds(one.length_us)} ms` +
      `${(one.offset_us + one.length_us) * scale > width ? " ▸" : ""}`;
    const label = `node ${one.node}  ${one.what}${one.own ? "" : ", another session"}`;
    figure.append(svg("text", { x: 0, y: y + 12 }, label));
    figure.append(titled(svg("rect", { x: left + from, y: y + 3, width: to - from, height: row - 12,
      fill: UNDER_WAY[one.what], "fill-opacity": one.own ? 0.9 : 0.45, class: "ca-under-way" }), one.text ?? ""));
    figure.append(svg("text", { x: left + to + 4, y: y + 11 }, open));
  });
  return figure;
}

// Of the statement's own sessions first.
const shownUnderWay = (detail) =>
  [...detail.under_way].sort((a, b) => Number(b.own) - Number(a.own)).slice(0, MOST_UNDER_WAY);

function statementView(detail) {
  const part = html("section", {}, html("h3", {}, `Statement ${detail.trace}`), wide(waterfall(detail)));
  for (const sentence of detail.clocks) part.append(html("p", { class: "ca-soft" }, sentence));
  for (const one of shownUnderWay(detail))
    part.append(html("p", { class: one.own ? "ca-own" : "ca-soft" }, `Under way on node ${one.node}` +
      `${one.own ? ", in this statement's session" : ""}: ${one.what} from ${milliseconds(one.offset_us)} ms, ` +
      `${milliseconds(one.length_us)} ms long: ${one.text}`));
  const more = detail.under_way.length - MOST_UNDER_WAY;
  if (more > 0) part.append(html("p", { class: "ca-soft" }, `... and ${number(more)} more in other sessions`));
  if (!detail.under_way.length) part.append(html("p", { class: "ca-soft" }, "No checkpoint and no logged lock wait was under way on its nodes."));
  part.append(howToGet(detail.call, detail.sql), html("h3", {}, "Records of the raw logs, secrets redacted"));
  if (detail.problem) part.append(html("p", { class: "ca-problem" }, detail.problem));
  for (const one of detail.records)
    part.append(html("p", { class: "ca-soft" }, `node ${one.node}, ${one.path}, byte ${one.byte_offset}`),
      html("pre", { class: "ca-record" }, one.text ?? ""));
  part.append(howToGet(detail.record_call));
  return part;
}

function draw(model, el) {
  const view = parsed(model, "view"), heat = parsed(model, "heat"), detail = parsed(model, "detail");
  const ask = (selection) => { model.set("request", JSON.stringify(selection)); model.save_changes(); };
  const open = (trace) => { el.dataset.asked = trace; model.set("trace", trace); model.save_changes(); };
  const scrolled = el.querySelector(".ca-scroll")?.scrollTop ?? 0;
  const all = html("button", { type: "button" }, "clear the rectangle");
  all.addEventListener("click", () => ask(filtersOf(view.selection)));
  const counted = html("p", { class: "ca-count" }, `${statements(view.n)} selected, ${number(view.n_rest)} others pass the filters` +
    (view.rows.length < view.n ? `; the table has the first ${view.rows.length}` : "") + ". ");
  if (view.n_rest > 0 && !model.frozen) counted.append(all);
  el.replaceChildren(filters(model, parsed(model, "choices"), view.selection, ask),
    html("p", { class: "ca-problem", role: "status" }, model.get("problem") || ""),
    html("h3", {}, "Statements by time in the run and time taken (T)"), wide(heatMap(model, heat, view.selection, ask)),
    html("p", { class: "ca-soft" }, `${statements(heat.n)}; a cell is ${number(heat.width_s)} s wide; lighter: more statements` +
      (model.frozen ? "." : "; drag to select.")),
    howToGet(heat.call), counted, legend(view), statementTable(model, view, ask, open, detail.trace),
    howToGet(view.call, view.sql), html("h3", {}, "Selected statements against the rest"), percentileTable(view),
    ...(detail.spans ? [statementView(detail)] : []));
  el.querySelector(".ca-scroll").scrollTop = scrolled;
  // The statement is drawn below the tables: who opened it is brought there.
  if (detail.spans && el.dataset.asked === detail.trace) {
    delete el.dataset.asked;
    el.lastElementChild.scrollIntoView({ block: "start" });
  }
}

// A model that answers from a page instead of a kernel.
function frozenModel(state) {
  const held = { view: JSON.stringify(state.view), heat: JSON.stringify(state.heat), choices: JSON.stringify(state.choices) };
  const listeners = [];
  const opened = (trace) => JSON.stringify({ trace, ...state.details[trace] });
  const first = state.view.rows.find((row) => state.details[row.trace_id]);
  if (first) held.detail = opened(first.trace_id);
  return {
    frozen: true,
    has: (trace) => Boolean(state.details[trace]),
    get: (name) => held[name],
    set: (name, value) => { if (name === "trace") held.detail = opened(value); },
    save_changes: () => listeners.forEach((listener) => listener()),
    on: (_, listener) => listeners.push(listener),
    off: () => listeners.splice(0),
  };
}

function render({ model, el }) {
  el.classList.add("ca-explorer");
  let due = false;
  // Several traits change together; they are drawn once.
  const redraw = () => {
    if (due) return;
    due = true;
    queueMicrotask(() => { due = false; draw(model, el); });
  };
  const events = ["heat", "view", "detail", "problem"].map((name) => `change:${name}`);
  for (const event of events) model.on(event, redraw);
  draw(model, el);
  return () => { for (const event of events) model.off(event, redraw); };
}

export default { render };
