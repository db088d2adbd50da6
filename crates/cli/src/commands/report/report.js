"use strict";
// Moves the page to another record: `data-k` names the cell that an element shows, `data-f` and `data-t` the
// records between which it is there. A point is a record with the cells that it changed.
//
// A long page has its steps in chunks. A move changes what is in view at once; it changes the other chunks when
// they come into view, or when the browser has time. So it costs what a window shows, not what the log has.
const report = (() => {
  const $ = (id) => document.getElementById(id);

  // The points: their records and times, and for each cell the places of the points that changed it, each followed
  // by the value. They are read in pieces, before the first move or when the browser has time.
  const PIECE = 1 << 18;
  let unread = [], seqs = [], times = [], changes = new Map();

  const read = () => {
    const source = unread[0], { text, from } = source, line = text.indexOf("\n", from + PIECE);
    const end = line < 0 ? text.lastIndexOf("]") : line;
    // A row has a line of its own, which ends with a comma.
    const rows = JSON.parse(`[${text.slice(from, line < 0 ? end : end - 1)}]`);
    for (const [seq, time, cells] of rows) {
      const index = seqs.length;
      seqs.push(source.seq += seq);
      times.push(source.time += time);
      for (const key in cells) {
        // A value may be what it shares with the last one of its kind, and what is between.
        const kind = /^[saw]\d/.test(key) ? key[0] : key, last = source.last.get(kind) ?? "";
        const [start, end, middle] = Array.isArray(cells[key]) ? cells[key] : [0, 0, cells[key]];
        const value = last.slice(0, start) + middle + last.slice(last.length - end), known = changes.get(key);
        source.last.set(kind, value);
        if (known) known.push(index, value);
        else changes.set(key, [index, value]);
      }
    }
    source.from = end + 1;
    if (line < 0) unread.shift();
    const slider = $("at");
    if (unread.length || !slider) return;
    slider.max = seqs.length - 1;
    if (place === null) slider.value = seqs.length - 1;
  };
  const readAll = () => { while (unread.length) read(); };

  const first = (key) => (/^s\d/.test(key) ? "waiting" : /^a\d/.test(key) ? "0" : "");

  // The value of a cell at a point: that of its last change up to it.
  const valueAt = (key, index) => {
    const known = changes.get(key);
    if (!known || known[0] > index) return first(key);
    let low = 0, high = known.length / 2 - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (known[2 * middle] <= index) low = middle; else high = middle - 1;
    }
    return known[2 * low + 1];
  };

  // The place of the point that is shown; null: the newest. Each move has a number.
  let place = null, moves = 0;

  // The parts of the page: the chunks, and what is outside of them. A part has its cells with their elements, what
  // these show, the elements that are not always there, and the number of the move that it followed last.
  let base = null, parts = new Map();
  const partOf = (node) => parts.get(node.closest(".chunk")) || base;

  const show = (node, value) => {
    if (node.dataset.s !== undefined) node.dataset.s = value;
    if (node.tagName === "PROGRESS") node.value = Number(value) || 0;
    else node.textContent = value;
    const row = node.closest("[data-row]");
    if (row && (row === node || row.querySelector("[data-k]") === node)) row.hidden = value === "";
  };

  // Lets a part follow the last move.
  const follow = (part) => {
    if (part.move === moves) return;
    readAll();
    part.move = moves;
    const index = place ?? seqs.length - 1, seq = place === null ? Number.MAX_SAFE_INTEGER : seqs[place];
    for (const [key, nodes] of part.cells) {
      const value = valueAt(key, index);
      if (part.shown.get(key) === value) continue;
      part.shown.set(key, value);
      for (const node of nodes) show(node, value);
    }
    for (const span of part.spans) {
      const there = span.from <= seq && seq < span.to;
      if (there === span.there) continue;
      span.there = there;
      span.node.toggleAttribute("hidden", !there);
    }
    if (part.node) return;
    for (const node of document.querySelectorAll("[data-any]")) node.hidden = !node.querySelector("[data-f]:not([hidden])");
  };

  const move = (index) => {
    readAll();
    const last = seqs.length - 1;
    if (last < 0) return;
    index = Math.max(0, Math.min(last, index));
    const seq = seqs[index], micros = times[index];
    place = index === last ? null : index;
    moves += 1;
    $("at").value = index;
    $("at").setAttribute("aria-valuetext", `record ${seq}`);
    $("seq").textContent = seq;
    $("time").textContent = new Date(Math.floor(micros / 1000)).toISOString().replace("Z", String(micros % 1000).padStart(3, "0") + "Z");
    $("newest").hidden = place === null;
    document.body.classList.toggle("past", place !== null);
    follow(base);
    for (const part of parts.values()) if (part.isNear) arrive(part);
    for (const drawing of document.querySelectorAll("svg.timeline")) {
      const { first, whole } = drawing.dataset, [future, now] = drawing.querySelectorAll(".now, .future");
      const x = 200 + Math.max(0, Math.min(1, (micros - Number(first)) / Number(whole))) * 1000;
      for (const [node, name, value] of [[future, "x", x], [future, "width", 1200 - x], [now, "x1", x], [now, "x2", x]]) node.setAttribute(name, value);
    }
    filter();
    workLater();
  };

  // The last point that is not after a record.
  const pointOf = (seq) => {
    readAll();
    let low = 0, high = seqs.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (seqs[middle] <= seq) low = middle; else high = middle - 1;
    }
    return low;
  };

  // The height of a step that was not shown yet.
  const STEP_HEIGHT = 55;
  const setHeight = (part, count) => {
    part.node.style.minHeight = part.isBuilt ? "" : `${count * STEP_HEIGHT}px`;
    part.node.style.containIntrinsicSize = `auto ${count * STEP_HEIGHT}px`;
  };

  // A chunk is a text until it is built. What plans and people write has no `<` there, so it can be taken apart at
  // tags. The body of a step is a text until it is opened.
  const BODY = '<div class="body">', END = "</div></details>", STEP = '<details class="step"', bodies = new WeakMap();
  const textIn = (chunk) => chunk.querySelector(":scope > noscript, :scope > script");
  const split = (text) => text.split(STEP).slice(1).map((step) => {
    const body = step.indexOf(BODY) + BODY.length;
    return { head: `${STEP}${step.slice(0, body)}${END}`, body: step.slice(body, step.lastIndexOf(END)) };
  });
  const expand = (chunk, steps) => {
    chunk.innerHTML = steps.map((step) => step.head).join("");
    [...chunk.children].forEach((step, index) => bodies.set(step, steps[index].body));
    chunk.classList.add("built");
  };

  // What the filter looks at: the number, the words and the newest status of each step of a part.
  const PLAIN = { "&lt;": "<", "&gt;": ">", "&quot;": '"', "&#39;": "'", "&amp;": "&" };
  const stepsIn = (part) => {
    if (part.steps) return part.steps;
    if (part.node && !part.isBuilt) {
      part.steps = split(textIn(part.node).textContent).map(({ head, body }) => {
        const words = [...head.matchAll(/class="(?:number|id|title|owner)">([^<]*)/g)].map((it) => it[1]).join(" ");
        const [, number] = /id="step-(\d+)"/.exec(head), [, status] = /data-s="(\w+)"/.exec(head);
        return { head, body, number, status, text: words.replace(/&(?:lt|gt|quot|#39|amp);/g, (it) => PLAIN[it]).toLowerCase(), isOff: false };
      });
    } else {
      const nodes = part.node ? part.node.children : document.querySelectorAll(".step:not(.chunk *)");
      part.steps = [...nodes].map((node) => {
        const summary = node.firstElementChild, words = summary.querySelectorAll(".number, .id, .title, .owner");
        const text = [...words].map((it) => it.textContent).join(" ").toLowerCase();
        return { node, number: node.id.slice(5), status: summary.firstElementChild.dataset.s, text, isOff: node.classList.contains("off") };
      });
    }
    return part.steps;
  };

  const done = new Set(["accepted", "skipped", "removed", "cancelled"]);
  let isFiltered = false;
  const filter = () => {
    const search = $("search"), open = $("open");
    if (!search) return;
    const words = search.value.trim().toLowerCase();
    if (!words && !open.checked && !isFiltered) return;
    isFiltered = Boolean(words || open.checked);
    if (moves) readAll();
    const statusOf = (step) => (moves ? valueAt(`s${step.number}`, place ?? seqs.length - 1) : step.status);
    let found = 0, all = 0;
    for (const part of [base, ...parts.values()]) {
      let fitting = 0;
      const steps = stepsIn(part);
      for (const step of steps) {
        const isOff = Boolean(words && !step.text.includes(words)) || (open.checked && done.has(statusOf(step)));
        fitting += !isOff;
        if (step.isOff === isOff) continue;
        step.isOff = isOff;
        step.node?.classList.toggle("off", isOff);
      }
      found += fitting;
      all += steps.length;
      if (!part.node) continue;
      part.node.classList.toggle("off", fitting === 0);
      setHeight(part, fitting);
    }
    $("found").textContent = isFiltered ? `${found} of ${all}` : "";
  };

  // The cells and spans of a part, or of what was added to it.
  const index = (part, nodes, spans) => {
    for (const node of nodes) {
      const key = node.dataset.k, known = part.cells.get(key);
      if (known) known.push(node); else part.cells.set(key, [node]);
    }
    for (const node of spans) {
      const { f, t } = node.dataset;
      part.spans.push({ node, from: Number(f), to: Number(t || Infinity), there: !node.hasAttribute("hidden") });
    }
  };
  const indexIn = (part, within) => index(part, within.querySelectorAll("[data-k]"), within.querySelectorAll("[data-f]"));
  const newPart = (node) => ({ node, isBuilt: !node || node.classList.contains("built"), isNear: false, isChanged: true,
    cells: new Map(), shown: new Map(), spans: [], steps: null, move: moves });

  const build = (part) => {
    if (part.isBuilt) return;
    const steps = stepsIn(part);
    expand(part.node, steps);
    part.isBuilt = true;
    part.isChanged = false;
    [...part.node.children].forEach((node, index) => {
      const step = steps[index];
      [step.node, step.head, step.body] = [node, null, null];
      node.classList.toggle("off", step.isOff);
    });
    setHeight(part, steps.filter((step) => !step.isOff).length);
    indexIn(part, part.node);
    // It shows the newest record.
    part.move = place === null ? moves : -1;
  };
  const arrive = (part) => {
    build(part);
    follow(part);
  };
  // Gives a step its body.
  const fill = (step) => {
    if (!bodies.has(step)) return;
    const body = step.querySelector(":scope > .body");
    body.innerHTML = bodies.get(step);
    bodies.delete(step);
    if (!step.isConnected) return;
    const part = partOf(step);
    indexIn(part, body);
    if (place === null) return;
    part.move = -1;
    follow(part);
  };

  const NEAR = "1500px 0px";
  const observer = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      const part = parts.get(target);
      if (!part) continue;
      part.isNear = isIntersecting;
      if (isIntersecting) arrive(part);
    }
  }, { rootMargin: NEAR });

  // Does a piece of what can wait. The result says whether there was one.
  const work = () => {
    if (unread.length) {
      read();
      return true;
    }
    for (const part of parts.values()) {
      if (part.isBuilt && part.move === moves) continue;
      arrive(part);
      return true;
    }
    return false;
  };
  const idle = window.requestIdleCallback || ((then) => setTimeout(() => then({ timeRemaining: () => 0 }), 30));
  let isWaiting = false;
  const workLater = () => {
    if (isWaiting) return;
    isWaiting = true;
    idle((time) => {
      isWaiting = false;
      do {
        if (!work()) return;
      } while (time.timeRemaining() > 10);
      workLater();
    });
  };

  // Looks at the page anew, after it was built or changed.
  const attach = () => {
    base = newPart(null);
    index(base, document.querySelectorAll("[data-k]:not(.chunk *)"), document.querySelectorAll("[data-f]:not(.chunk *)"));
    const before = parts;
    parts = new Map();
    for (const node of document.querySelectorAll(".chunk")) {
      const part = before.get(node) || newPart(node);
      parts.set(node, part);
      if (!before.has(node)) {
        setHeight(part, Number(node.dataset.steps));
        observer.observe(node);
      }
      if (!part.isBuilt || !part.isChanged) continue;
      [part.cells, part.shown, part.spans, part.steps, part.isChanged] = [new Map(), new Map(), [], null, false];
      indexIn(part, node);
    }
    for (const step of document.querySelectorAll(".step[open]")) fill(step);
    for (const id of ["at", "controls", "filter"]) $(id).hidden = false;
    const [chunk] = parts.values();
    if (chunk && !before.has(chunk.node)) {
      // The observer looks later.
      chunk.isNear = true;
      arrive(chunk);
    }
    if (place !== null) move(place);
    else filter();
    workLater();
  };

  // The points of the page, or those that come after them.
  const take = (text, isNew) => {
    if (isNew) {
      [unread, seqs, times, changes, place, parts] = [[], [], [], new Map(), null, new Map()];
      observer.disconnect();
    }
    if (text.length > 2) unread.push({ text, from: 1, seq: 0, time: 0, last: new Map() });
  };

  // A step by the name of its element. It may be replaced.
  const find = (id) => {
    const number = id.slice(5);
    if (!$(id)) {
      const part = [...parts.values()].find((part) => !part.isBuilt && stepsIn(part).some((step) => step.number === number));
      if (part) build(part);
    }
    const step = $(id);
    if (step) partOf(step).isChanged = true;
    return step;
  };

  const open = (id) => {
    if (!id.startsWith("step-")) return;
    const step = find(id);
    if (!step) return;
    follow(partOf(step));
    step.classList.remove("off");
    step.closest(".chunk")?.classList.remove("off");
    step.open = true;
    fill(step);
    step.scrollIntoView({ block: "center" });
    step.firstElementChild.focus({ preventScroll: true });
  };

  let pending = 0;
  document.addEventListener("input", ({ target }) => {
    if (target.id === "at") {
      cancelAnimationFrame(pending);
      pending = requestAnimationFrame(() => move(target.value === target.max ? Infinity : Number(target.value)));
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
    const from = () => {
      readAll();
      return place ?? seqs.length - 1;
    };
    if (button?.id === "back") move(from() - 1);
    if (button?.id === "forward") move(from() + 1);
    if (button?.id === "newest") move(Infinity);
    const link = target.closest("a[href^='#step-']");
    if (link) open(link.getAttribute("href").slice(1));
  });
  document.addEventListener("toggle", ({ target }) => {
    if (target.classList?.contains("step") && target.open) fill(target);
  }, true);
  document.addEventListener("keydown", (event) => {
    const isTyping = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName);
    if (event.key !== "/" || isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    $("search")?.focus();
  });
  window.addEventListener("beforeprint", () => { while (work()); });

  const expandIn = (within) => {
    for (const chunk of within.querySelectorAll(".chunk:not(.built)")) expand(chunk, split(textIn(chunk).textContent));
  };
  return { attach, take, open, build: fill, find, expandIn };
})();
if (document.getElementById("points")) {
  report.take(document.getElementById("points").textContent, true);
  report.attach();
  report.open(location.hash.slice(1));
}
