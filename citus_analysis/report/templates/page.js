"use strict";
(async () => {
  const root = document.documentElement;
  const contents = document.getElementById("contents");
  if (contents && matchMedia("(min-width: 75rem)").matches) contents.open = true;
  const unfold = (open) => document.querySelectorAll("details.fold, details.how, .set-up details").forEach((one) => { one.open = open; });
  window.addEventListener("beforeprint", () => unfold(true));
  window.addEventListener("afterprint", () => unfold(false));
  const text = (id) => document.getElementById(id).textContent;
  if (!document.getElementById("library")) { root.classList.add("ready"); return; }
  if (typeof DecompressionStream === "undefined") { document.getElementById("too-old").hidden = false; return; }

  // Base 85, 5 characters for 4 bytes, as report/engine/packed_text.py writes it.
  const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;,=>?@^_`{|}~";
  const values = new Uint8Array(128);
  [...digits].forEach((digit, value) => { values[digit.charCodeAt(0)] = value; });
  const bytes = (encoded) => {
    const missing = (5 - (encoded.length % 5)) % 5;
    const padded = encoded + "~".repeat(missing);
    const view = new DataView(new ArrayBuffer((padded.length / 5) * 4));
    for (let at = 0, place = 0; at < padded.length; place += 4) {
      let value = 0;
      for (const end = at + 5; at < end; at += 1) value = value * 85 + values[padded.charCodeAt(at)];
      view.setUint32(place, value);
    }
    return new Uint8Array(view.buffer, 0, view.byteLength - missing);
  };
  const unpacked = (id) =>
    new Response(new Blob([bytes(text(id))]).stream().pipeThrough(new DecompressionStream("deflate"))).text();

  // Inks and papers of the figures' theme -> those of the dark scheme. Colours of data stay, except black.
  const dark = {
    "#1f2933": "#e6e9ed", "#000000": "#e6e9ed", "#000": "#e6e9ed", "black": "#e6e9ed", "white": "#14181d",
    "#fff": "#14181d", "#ffffff": "#14181d", "#e4e7eb": "#2c333b", "#9aa5b1": "#6b7683", "#6b7280": "#98a2ae",
    "#0072b2": "#3f9fdb", "#52606d": "#a9b4c0",
  };
  const inks = new RegExp(`"(${Object.keys(dark).join("|")})"`, "gi");
  const config = JSON.parse(text("figure-config"));
  const wantsDark = matchMedia("(prefers-color-scheme: dark)");
  const [library, light] = await Promise.all([unpacked("library"), unpacked("figures")]);
  const script = document.createElement("script");
  script.textContent = library;
  document.head.append(script);
  const schemes = {
    light: () => JSON.parse(light),
    dark: () => JSON.parse(light.replace(inks, (_, ink) => `"${dark[ink.toLowerCase()]}"`)),
  };
  const places = [...document.querySelectorAll(".canvas")];
  // Long names beside an axis would leave no room on a phone: they break into lines, and the figure grows.
  const wrapped = (name, room) => name.split(" ").reduce((lines, word) => {
    const last = lines[lines.length - 1];
    // A unit of one or two letters stays with its number.
    if (lines.length && (word.length <= 2 || last.length + word.length < room)) lines[lines.length - 1] = `${last} ${word}`; else lines.push(word);
    return lines;
  }, []);
  // Names of a tree are in front of the axis; on a narrow screen each is above its row.
  const treeAbove = (layout) => {
    const names = layout.annotations.filter((note) => note.xshift < 0);
    const [left, more] = [layout.margin.l, 16 * names.length];
    const moved = (note) => ({ ...note, xshift: (note.xshift + left - 12) / 2, yshift: 15, font: { ...note.font, size: 11 } });
    const annotations = layout.annotations.map((note) => (note.xshift < 0 ? moved(note) : note));
    return { ...layout, annotations, bargap: 0.6, height: layout.height + more, margin: { ...layout.margin, l: 8 } };
  };
  const fitted = ({ data, layout }, width) => {
    if (width <= 600 && layout.annotations?.some((note) => note.xshift < 0)) return treeAbove(layout);
    const axis = layout.yaxis || {};
    const names = axis.ticktext || [...new Set(data.flatMap((trace) => (Array.isArray(trace.y) ? trace.y : [])))];
    const room = Math.floor(width / 16);
    if (width > 600 || !names.some((name) => typeof name === "string" && name.split("<br>").some((line) => line.length > room))) return layout;
    const lines = names.map((name) => wrapped(String(name).replaceAll("<br>", " "), room));
    const height = layout.height || 420;
    const needed = 12 * Math.max(...lines.map((one) => one.length)) + 4;
    const more = Math.max(0, needed - (height - 130) / names.length) * names.length;
    const ticks = { tickmode: "array", tickvals: axis.tickvals || names, ticktext: lines.map((one) => one.join("<br>")) };
    return { ...layout, height: height + more, yaxis: { ...axis, ...ticks, tickfont: { ...axis.tickfont, size: 10 } } };
  };
  let printing = false;
  // One after the other: the first figures appear early, and the page answers meanwhile.
  const draw = async (scheme) => {
    const figures = schemes[scheme]();
    for (const place of places) {
      // For printing, all figures are drawn at once; this loop ends.
      if (printing) return;
      const { data } = figures[place.id];
      await Plotly.react(place, data, fitted(figures[place.id], place.clientWidth), config);
      place.classList.add("drawn");
      await new Promise((next) => setTimeout(next));
    }
  };
  const screen = () => draw(wantsDark.matches ? "dark" : "light");
  await screen();
  wantsDark.addEventListener("change", screen);
  let breadth = root.clientWidth;
  window.addEventListener("resize", () => {
    if ((breadth > 600) !== (root.clientWidth > 600)) screen();
    breadth = root.clientWidth;
  });
  // Figures take the width of a sheet before the browser lays it out, and at once, because it does not wait.
  const sheet = 660;
  const tallest = 860;
  window.addEventListener("beforeprint", () => {
    printing = true;
    const figures = schemes.light();
    places.forEach((place) => {
      const { data, layout } = figures[place.id];
      const height = Math.min(layout.height || 420, tallest);
      // Plotly leaves out names that are too close together: smaller ones fit into a lower figure.
      const axis = height < layout.height ? { yaxis: { ...layout.yaxis, tickfont: { size: 9 } } } : {};
      // On screen a figure keeps its place until it is drawn; on paper it may be lower than that.
      place.style.minHeight = `${height}px`;
      Plotly.react(place, data, { ...layout, ...axis, width: sheet, height }, config);
    });
  });
  window.addEventListener("afterprint", () => { printing = false; screen(); });

  // A saved figure is for paper: the light scheme, with the title that the page shows above it.
  const save = async (button) => {
    const place = document.getElementById(button.dataset.of);
    const { data, layout } = schemes.light()[place.id];
    const title = document.getElementById(`${place.id}-title`).textContent;
    const escaped = title.replace(/&/g, "&amp;").replace(/</g, "&lt;");
    const titled = { ...layout, title: { text: escaped, x: 0, xref: "paper", font: { size: 16 }, automargin: true, yref: "container" } };
    const size = { width: Math.max(600, place.clientWidth), height: (layout.height || 420) + 40 };
    const format = button.dataset.save;
    const url = await Plotly.toImage({ data, layout: { ...titled, ...size }, config }, { format, ...size, scale: format === "png" ? 2 : 1 });
    const link = Object.assign(document.createElement("a"), { href: url, download: `${place.id.replace(/^figure-/, "")}.${format}` });
    link.click();
  };
  document.querySelectorAll("[data-save]").forEach((button) => button.addEventListener("click", () => save(button)));
  root.classList.add("ready");
})();
