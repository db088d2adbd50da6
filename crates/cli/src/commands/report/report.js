"use strict";
// Moves the page to another record: each point has the cells that it changed.
(() => {
  const points = JSON.parse(document.getElementById("points").textContent);
  const cells = new Map();
  for (const node of document.querySelectorAll("[data-k]")) {
    const key = node.dataset.k;
    if (!cells.has(key)) cells.set(key, []);
    cells.get(key).push(node);
  }
  const slider = document.getElementById("at");
  const sequence = document.getElementById("seq");
  const time = document.getElementById("time");
  const now = document.getElementById("now");
  const rows = [...document.querySelectorAll("tr[data-seq]")];
  let shown = points.length - 1;

  const show = (key, value) => {
    for (const node of cells.get(key) || []) {
      if (node.dataset.s !== undefined) {
        node.dataset.s = value;
        if (node.tagName === "SPAN") { node.textContent = value; node.title = value; }
      } else if (node.tagName === "PROGRESS") {
        node.value = Number(value) || 0;
      } else if (node.namespaceURI === "http://www.w3.org/1999/xhtml") {
        node.textContent = value;
      }
    }
  };

  // The cells at a point: those of all points up to it.
  const at = (index) => {
    const values = new Map();
    for (const key of cells.keys()) values.set(key, key.startsWith("s") ? "waiting" : key.startsWith("a") ? "0" : "");
    for (let point = 0; point <= index; point++)
      for (const [key, value] of Object.entries(points[point][2])) values.set(key, value);
    return values;
  };

  const move = (index) => {
    if (index > shown) {
      for (let point = shown + 1; point <= index; point++)
        for (const [key, value] of Object.entries(points[point][2])) show(key, value);
    } else if (index < shown) {
      for (const [key, value] of at(index)) show(key, value);
    }
    shown = index;
    const [seq, micros] = points[index];
    sequence.textContent = seq;
    time.textContent = new Date(micros / 1000).toISOString();
    for (const row of rows) row.classList.toggle("later", Number(row.dataset.seq) > seq);
    if (now) {
      const line = now.ownerSVGElement.dataset;
      const place = 200 + Math.max(0, Math.min(1, (micros - Number(line.first)) / Number(line.whole))) * 1000;
      now.setAttribute("x1", place);
      now.setAttribute("x2", place);
    }
    filter();
  };

  const search = document.getElementById("search");
  const open = document.getElementById("open");
  const steps = [...document.querySelectorAll(".step")];
  const done = new Set(["accepted", "skipped", "removed", "cancelled"]);
  const filter = () => {
    const words = search.value.toLowerCase();
    for (const step of steps) {
      const summary = step.firstElementChild;
      const fits = !words || summary.textContent.toLowerCase().includes(words);
      step.hidden = !fits || (open.checked && done.has(summary.firstElementChild.dataset.s));
    }
  };

  slider.addEventListener("input", () => move(Number(slider.value)));
  search.addEventListener("input", filter);
  open.addEventListener("change", filter);
  for (const id of ["at", "hint", "filter"]) document.getElementById(id).hidden = false;
})();
