"use strict";
// Moves the page to another record: `data-k` names the cell that an element shows, `data-f` and `data-t` the
// records between which it is there. A point is a record with the cells that it changed.
const report = (() => {
  const $ = (id) => document.getElementById(id);
  let texts = [], points = null, shown = new Map(), cells = new Map(), spans = [], titles = null;
  // The place of the point that is shown; null: the newest.
  let place = null;

  const all = () => {
    if (!points) {
      points = texts.flatMap((text) => JSON.parse(text));
      $("at").max = points.length - 1;
      if (place === null) $("at").value = points.length - 1;
    }
    return points;
  };

  const sign = { accepted: "✓", failed: "✕", dispatched: "▶", ready: "●", reported: "◐", gated: "?", delayed: "◷",
    outcome_unknown: "⁇", skipped: "–", removed: "–", cancelled: "–" };

  const show = (key, value) => {
    if (shown.get(key) === value) return;
    shown.set(key, value);
    for (const node of cells.get(key) || []) {
      if (node.dataset.s !== undefined) node.dataset.s = value;
      if (node.tagName === "PROGRESS") node.value = Number(value) || 0;
      else if (node.tagName === "text") node.textContent = sign[value] || "○";
      else if (node.tagName !== "rect") node.textContent = value;
      const row = node.closest("[data-row]");
      if (row && (row === node || row.querySelector("[data-k]") === node)) row.hidden = value === "";
    }
  };

  const first = (key) => (/^s\d/.test(key) ? "waiting" : /^a\d/.test(key) ? "0" : "");

  // The cells at a point: those of all points up to it.
  const cellsAt = (index) => {
    const values = new Map();
    for (const key of cells.keys()) values.set(key, first(key));
    for (let point = 0; point <= index; point++)
      for (const key in points[point][2]) values.set(key, points[point][2][key]);
    return values;
  };

  const later = (pre, seq) => {
    const text = pre.textContent;
    let end = 0;
    while (end < text.length && parseInt(text.slice(end, end + 20), 10) <= seq) end = text.indexOf("\n", end) + 1;
    if (end >= text.length) return pre.firstElementChild && pre.replaceChildren(text);
    const rest = document.createElement("span");
    rest.className = "later";
    rest.textContent = text.slice(end);
    pre.replaceChildren(text.slice(0, end), rest);
  };

  const dim = (within, seq) => within.querySelectorAll("pre.lines").forEach((pre) => later(pre, seq));

  const atSeq = (seq) => {
    for (const span of spans) {
      const there = span.from <= seq && seq < span.to;
      if (there === span.there) continue;
      span.there = there;
      span.node.toggleAttribute("hidden", !there);
    }
    for (const node of document.querySelectorAll("[data-any]")) node.hidden = !node.querySelector("[data-f]:not([hidden])");
    for (const section of document.querySelectorAll("#records, .step[open]")) dim(section, seq);
  };

  const move = (index) => {
    expandAll();
    const known = all(), last = known.length - 1;
    index = Math.max(0, Math.min(last, index));
    for (const [key, value] of cellsAt(index)) show(key, value);
    const [seq, micros] = known[index];
    place = index === last ? null : index;
    $("at").value = index;
    $("seq").textContent = seq;
    $("time").textContent = new Date(Math.floor(micros / 1000)).toISOString().replace("Z", String(micros % 1000).padStart(3, "0") + "Z");
    $("newest").hidden = place === null;
    document.body.classList.toggle("past", place !== null);
    atSeq(place === null ? Number.MAX_SAFE_INTEGER : seq);
    const now = $("now");
    if (now) {
      const { first, whole } = now.ownerSVGElement.dataset;
      const x = 200 + Math.max(0, Math.min(1, (micros - Number(first)) / Number(whole))) * 1000;
      now.setAttribute("x1", x);
      now.setAttribute("x2", x);
      $("future").setAttribute("x", x);
      $("future").setAttribute("width", 1200 - x);
    }
    filter();
  };

  // The last point that is not after a record.
  const pointOf = (seq) => {
    let low = 0, high = all().length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (points[middle][0] <= seq) low = middle; else high = middle - 1;
    }
    return low;
  };

  const done = new Set(["accepted", "skipped", "removed", "cancelled"]);
  const filter = () => {
    const search = $("search"), open = $("open");
    if (!search) return;
    const words = search.value.trim().toLowerCase();
    if (!words && !open.checked && !filter.isOn) return;
    filter.isOn = words || open.checked;
    expandAll();
    titles ??= [...document.querySelectorAll(".step")].map((step) => {
      const summary = step.firstElementChild, words = summary.querySelectorAll(".number, .id, .title, .owner");
      return { step, mark: summary.firstElementChild, text: [...words].map((node) => node.textContent).join(" ").toLowerCase() };
    });
    let found = 0;
    for (const { step, mark, text } of titles) {
      const fits = (!words || text.includes(words)) && !(open.checked && done.has(mark.dataset.s));
      step.classList.toggle("off", !fits);
      found += fits;
    }
    $("found").textContent = filter.isOn ? `${found} of ${titles.length}` : "";
  };

  // The cells and spans of a part of the page.
  const index = (within) => {
    for (const node of within.querySelectorAll("[data-k]")) {
      const key = node.dataset.k;
      if (!cells.has(key)) cells.set(key, []);
      cells.get(key).push(node);
      if (node.tagName === "text") node.textContent = sign[node.dataset.s] || "○";
    }
    for (const node of within.querySelectorAll("[data-f]")) {
      const { f, t } = node.dataset;
      spans.push({ node, from: Number(f), to: Number(t || Infinity), there: !node.hasAttribute("hidden") });
    }
  };

  // A long page has its steps as texts. Each text becomes a list of steps whose bodies are texts until they are
  // opened. What plans and people write has no `<`, so the texts can be taken apart at tags.
  const BODY = '<div class="body">', END = "</div></details>", bodies = new WeakMap();
  const chunksIn = (within) => [...within.querySelectorAll(".chunk > noscript, .chunk > script")];
  const expand = (text) => {
    const chunk = text.parentElement, texts = text.textContent.split('<details class="step"').slice(1);
    const parts = texts.map((step) => {
      const place = step.indexOf(BODY) + BODY.length;
      return [`<details class="step"${step.slice(0, place)}${END}`, step.slice(place, step.lastIndexOf(END))];
    });
    chunk.innerHTML = parts.map((part) => part[0]).join("");
    [...chunk.children].forEach((step, place) => bodies.set(step, parts[place][1]));
    chunk.className = "";
    return chunk;
  };
  const build = (step) => {
    if (!bodies.has(step)) return;
    const body = step.querySelector(":scope > .body");
    body.innerHTML = bodies.get(step);
    bodies.delete(step);
    index(body);
    if (place !== null) atSeq(points[place][0]);
  };
  const idle = window.requestIdleCallback || ((work) => setTimeout(work, 30));
  const expandAll = () => {
    if (document.querySelector(".chunk")) {
      for (const text of chunksIn(document)) index(expand(text));
      titles = null;
    }
  };
  const expandNext = () => {
    const [text, next] = chunksIn(document);
    if (!text) return;
    index(expand(text));
    titles = null;
    if (next) idle(expandNext);
  };

  // Looks at the page anew, after it was built or changed.
  const attach = () => {
    [cells, shown, spans] = [new Map(), new Map(), []];
    index(document);
    for (const step of document.querySelectorAll(".step[open]")) build(step);
    titles = null;
    for (const id of ["at", "controls", "filter"]) $(id).hidden = false;
    expandNext();
    if (texts.length > 1) all();
    if (place !== null) move(place);
    else filter();
  };

  // The points of the page, or those that come after them.
  const take = (text, isNew) => {
    if (isNew) [texts, place] = [[], null];
    texts.push(text);
    points = null;
  };

  const open = (id) => {
    if (!id.startsWith("step-")) return;
    if (!$(id)) expandAll();
    const step = $(id);
    if (!step) return;
    step.classList.remove("off");
    step.open = true;
    build(step);
    step.scrollIntoView({ block: "center" });
    step.firstElementChild.focus({ preventScroll: true });
  };

  let pending = 0;
  document.addEventListener("input", ({ target }) => {
    if (target.id === "at") {
      cancelAnimationFrame(pending);
      pending = requestAnimationFrame(() => move(Number(target.value)));
    }
    if (target.id === "search") {
      clearTimeout(pending);
      pending = setTimeout(filter, 60);
    }
  });
  document.addEventListener("change", ({ target }) => {
    if (target.id === "open") filter();
    if (target.id === "goto" && target.value) move(pointOf(Number(target.value)));
  });
  document.addEventListener("click", ({ target }) => {
    const button = target.closest("button");
    const last = () => all().length - 1;
    if (button?.id === "back") move((place ?? last()) - 1);
    if (button?.id === "forward") move((place ?? last()) + 1);
    if (button?.id === "newest") move(last());
    const link = target.closest("a[href^='#step-'], a[*|href^='#step-']");
    if (link) open((link.getAttribute("href")).slice(1));
  });
  document.addEventListener("toggle", ({ target }) => {
    if (!target.classList?.contains("step") || !target.open) return;
    build(target);
    if (place !== null) dim(target, points[place][0]);
  }, true);
  document.addEventListener("keydown", (event) => {
    const isTyping = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName);
    if (event.key !== "/" || isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    $("search")?.focus();
  });

  return { attach, take, open, build, expandIn: (within) => chunksIn(within).forEach(expand) };
})();
if (document.getElementById("points")) {
  report.take(document.getElementById("points").textContent, true);
  report.attach();
  report.open(location.hash.slice(1));
}
