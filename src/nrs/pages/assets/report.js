"use strict";
(() => {
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // Figures take their ink from the page, so that they follow it into the dark.
  const themed = (layout) => {
    // A finger on a figure scrolls the page; only a mouse may zoom.
    const touch = matchMedia("(pointer: coarse)").matches;
    const axis = {
      gridcolor: css("--grid"), linecolor: css("--line"), zerolinecolor: css("--line"), fixedrange: touch,
    };
    return {
      ...layout,
      dragmode: touch ? false : "zoom",
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: getComputedStyle(document.body).fontFamily, size: 13, color: css("--ink") },
      hoverlabel: { bgcolor: css("--raised"), bordercolor: css("--line"), font: { color: css("--ink") } },
      xaxis: { ...layout.xaxis, ...axis, zeroline: Boolean(layout.xaxis.zeroline) },
      yaxis: { ...layout.yaxis, ...axis, zeroline: false },
    };
  };
  const plots = [...document.querySelectorAll("script[data-plot]")].map((script) => {
    const figure = JSON.parse(script.textContent);
    return { place: document.getElementById(script.dataset.plot), ...figure };
  });
  const options = { responsive: true, displayModeBar: false, scrollZoom: false };
  const draw = () => {
    for (const plot of plots) Plotly.react(plot.place, plot.data, themed(plot.layout), options);
  };
  if (plots.length) {
    draw();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  }
  addEventListener("beforeprint", () => {
    for (const part of document.querySelectorAll("details")) part.open = true;
  });

  // Rows that hold every word of the box stay; the checkbox drops rows that were never run.
  for (const bar of document.querySelectorAll(".search")) {
    const box = bar.querySelector("[data-filter]");
    const runOnly = bar.querySelector("[data-run-only]");
    const shown = bar.querySelector("output");
    const rows = [...document.getElementById(box.dataset.filter).tBodies[0].rows];
    const whole = "whole" in box.dataset;
    const texts = rows.map((row) =>
      (whole ? [...row.cells].map((cell) => cell.textContent)
        : [row.cells[0].textContent, ...[...row.cells].map((cell) => cell.title)]).join(" ").toLowerCase());
    const filter = () => {
      const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
      let count = 0;
      rows.forEach((row, i) => {
        const fits = words.every((word) => texts[i].includes(word));
        row.hidden = !fits || Boolean(runOnly?.checked && row.dataset.run === "0");
        count += row.hidden ? 0 : 1;
      });
      shown.textContent = count === rows.length ? `${count} rows` : `${count} of ${rows.length} rows`;
    };
    box.addEventListener("input", filter);
    runOnly?.addEventListener("change", filter);
    filter();
  }

  // A link to a note or a table inside a closed part opens that part.
  const reveal = () => {
    const target = location.hash && document.getElementById(location.hash.slice(1));
    for (let at = target; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
  };
  addEventListener("hashchange", reveal);
  reveal();
})();
