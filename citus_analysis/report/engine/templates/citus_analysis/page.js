"use strict";
(() => {
  const config = JSON.parse(document.getElementById("figure-config").textContent);
  const draw = (script) => {
    const place = document.getElementById(script.dataset.figure);
    const figure = JSON.parse(script.textContent);
    return Plotly.newPlot(place, figure.data, figure.layout, config).then(() => place.classList.add("drawn"));
  };
  const figures = [...document.querySelectorAll("script[data-figure]")].map(draw);
  const resize = () => document.querySelectorAll(".canvas").forEach((place) => Plotly.Plots.resize(place));
  window.addEventListener("beforeprint", resize);
  window.addEventListener("afterprint", resize);
  Promise.all(figures).then(() => document.documentElement.classList.add("ready"));
})();
