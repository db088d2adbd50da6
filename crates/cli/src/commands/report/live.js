// Keeps the page current, and makes the requests of its forms. The token is in the storage of this tab only.
(() => {
  const $ = (id) => document.getElementById(id);
  const KEY = "plan-ledger-token", AUTHOR = "plan-ledger-author", RUN = "plan-ledger-run";
  const REFRESH_MIN = 200, RECONNECT_MAX = 10_000, SILENCE_MAX = 40_000, LOAD_MAX = 60_000, WATCH = 15_000;
  // The address names the run, so that it can be kept and sent: `#run=NAME`, or `?run=NAME`.
  const named = () => new URLSearchParams(location.hash.slice(1)).get("run") ?? new URLSearchParams(location.search).get("run");
  let token = null, run = named() ?? sessionStorage.getItem(RUN), last = 0, session = 0, took = 0, timer = null, sources = new WeakMap();

  const pause = (time) => new Promise((resolve) => setTimeout(resolve, time));
  const headers = (more) => ({ Authorization: `Bearer ${token}`, ...more });
  const status = (text, isGood) => {
    const node = $("live");
    if (node.textContent !== text) node.textContent = text;
    node.classList.toggle("good", isGood);
  };
  const complain = (text) => {
    $("problem").textContent = text;
    $("problem").hidden = !text;
  };

  const leave = (why) => {
    session += 1;
    token = null;
    sessionStorage.removeItem(KEY);
    $("page").replaceChildren();
    $("login").hidden = false;
    document.body.classList.remove("past");
    status("Not connected", false);
    complain(why);
    $("token").focus();
  };

  const enter = (text) => {
    token = text;
    sessionStorage.setItem(KEY, text);
    session += 1;
    last = 0;
    $("login").hidden = true;
    $("token").value = "";
    complain("");
    start(session);
  };

  // Several runs are active, and none is named: each with a link to its page.
  const list = (runs) => {
    const items = runs.map((name) => {
      const link = document.createElement("a"), item = document.createElement("li");
      [link.textContent, link.href, link.dataset.go] = [name, `#run=${encodeURIComponent(name)}`, name];
      item.append(link);
      return item;
    });
    const all = document.createElement("ul");
    all.id = "runs";
    all.append(...items);
    $("page").replaceChildren(all);
  };

  const detail = async (response) => {
    try {
      const problem = await response.json();
      if (problem.runs && !run) list(problem.runs);
      return [problem.detail || problem.title, problem.hint].filter(Boolean).join(". ");
    } catch {
      return `the server answered ${response.status}`;
    }
  };

  // Carries over what a person has opened or typed in.
  const replace = (old, fresh) => {
    const name = (node) => `${node.form?.dataset.path} ${node.form?.dataset.step} ${node.id || node.name} ${node.value && node.tagName === "BUTTON" ? node.value : ""}`;
    const focused = old.contains(document.activeElement) ? document.activeElement : null;
    const fields = new Map();
    for (const node of old.querySelectorAll("input")) fields.set(name(node), node);
    for (const node of fresh.querySelectorAll("input:not([type=range])")) {
      const before = fields.get(name(node));
      if (before) [node.value, node.checked] = [before.value, before.checked];
    }
    const opened = (node) => [node, ...node.querySelectorAll("details")].filter((it) => it.tagName === "DETAILS");
    const [before, after] = [opened(old), opened(fresh)];
    if (before[0]?.open && fresh.classList.contains("step")) report.build(fresh);
    after.forEach((node, index) => { node.open = before[index]?.open ?? false; });
    const scrolled = [...old.querySelectorAll(".scroll")].map((node) => node.scrollLeft);
    old.replaceWith(fresh);
    fresh.querySelectorAll(".scroll").forEach((node, index) => { node.scrollLeft = scrolled[index] || 0; });
    if (!focused) return;
    const same = focused.tagName === "SUMMARY"
      ? fresh.querySelector("summary")
      : [...fresh.querySelectorAll("input, button")].find((node) => name(node) === name(focused));
    const next = same || fresh;
    if (!same) next.tabIndex = -1;
    next.focus({ preventScroll: true });
    if (same && focused.selectionStart != null && same.setSelectionRange && /text|search|password/.test(same.type)) {
      same.setSelectionRange(focused.selectionStart, focused.selectionEnd);
    }
  };

  const merge = (fresh, isWhole) => {
    const page = $("page"), [head, main] = [fresh.querySelector("header"), fresh.getElementById("main")];
    const points = fresh.getElementById("points").textContent;
    document.title = fresh.title;
    report.take(points, isWhole);
    if (isWhole) {
      sources = new WeakMap();
      for (const node of main.children) if (node.id !== "steps") sources.set(node, node.outerHTML);
      page.replaceChildren(head, main);
    } else {
      replace(page.querySelector("header"), head);
      const own = $("main"), wanted = [...main.children], names = new Set(wanted.map((node) => node.id));
      own.dataset.seq = main.dataset.seq;
      let place = own.firstElementChild;
      for (const section of wanted) {
        const old = own.querySelector(`:scope > #${section.id}`), source = section.outerHTML;
        if (old) place = old.nextElementSibling;
        if (!old) own.insertBefore(section, place);
        else if (section.id === "steps") {
          // The server sends the steps that changed.
          report.expandIn(section);
          for (const step of [...section.querySelectorAll(".step")]) {
            const before = report.find(step.id);
            if (before) replace(before, step); else old.querySelector(".steps").append(step);
          }
          continue;
        } else if (sources.get(old) !== source) replace(old, section);
        else continue;
        sources.set(section, source);
      }
      for (const node of [...own.children]) if (!names.has(node.id)) node.remove();
    }
    const by = $("by");
    if (by && !by.value) by.value = localStorage.getItem(AUTHOR) || "";
    report.attach();
  };

  // Gets what has changed since the record that the page shows. One load begins after the other, or both would bring
  // the same changes.
  let loading = Promise.resolve();
  const load = () => {
    const next = loading.then(loadNow);
    loading = next.catch(() => {});
    return next;
  };
  const loadNow = async () => {
    const begun = performance.now(), own = session, main = $("main");
    const known = main && (!run || main.dataset.run === run) ? main.dataset.seq : 0;
    const query = new URLSearchParams({ known });
    if (run) query.set("run", run);
    const response = await fetch(`/v1/page?${query}`, { headers: headers(), cache: "no-store", signal: AbortSignal.timeout(LOAD_MAX) });
    if (own !== session) return;
    if (response.status === 401) return leave(await detail(response));
    if (!response.ok) {
      const text = await detail(response);
      if (response.status === 404 && run && !main) {
        run = null;
        sessionStorage.removeItem(RUN);
        return loadNow();
      }
      complain(text);
      return;
    }
    // A parser without scripts would build what is meant to stay a text.
    const text = (await response.text()).replaceAll("<noscript>", '<script type="text/html">').replaceAll("</noscript>", "<\/script>");
    const fresh = new DOMParser().parseFromString(text, "text/html");
    if (own !== session) return;
    const found = fresh.getElementById("main").dataset;
    const isWhole = !main || main.dataset.run !== found.run || found.known === "0";
    merge(fresh, isWhole);
    if (isWhole) complain("");
    run ??= found.run;
    last = Math.max(last, Number(found.seq));
    took = performance.now() - begun;
  };

  // Whether a runner is at work is in no record: the view of the run says it, and the page is loaded again if it changed.
  const watch = async () => {
    const own = session, main = $("main"), stands = main && document.querySelector("p.stands");
    if (!token || !stands || document.hidden || document.body.classList.contains("past")) return;
    const response = await fetch(`/v1/runs/${encodeURIComponent(main.dataset.run)}`, { headers: headers(), cache: "no-store", signal: AbortSignal.timeout(LOAD_MAX) });
    if (own !== session || !response.ok) return;
    const view = (await response.json()).lines.find((line) => line.type === "user_view");
    if (own === session && view && view.activity.text !== stands.dataset.text) await load();
  };
  setInterval(() => watch().catch(() => { /* The stream finds out, too. */ }), WATCH);

  // Loads soon, but leaves the browser and the server time for other work.
  const refresh = () => {
    if (timer) return;
    timer = setTimeout(async () => {
      try { await load(); } catch { /* The stream finds out, too. */ }
      timer = null;
      const shown = Number($("main")?.dataset.seq || 0);
      if (token && shown && shown < last) refresh();
    }, Math.max(REFRESH_MIN, 3 * took));
  };

  // Reads the records as they become durable; after an interruption, from the one after the last.
  const follow = async (own) => {
    const abort = new AbortController();
    let watch = null;
    const heard = () => {
      clearTimeout(watch);
      watch = setTimeout(() => abort.abort(), SILENCE_MAX);
    };
    heard();
    try {
      const response = await fetch("/v1/records", {
        headers: headers({ Accept: "text/event-stream", "Last-Event-ID": String(last) }), cache: "no-store", signal: abort.signal,
      });
      if (own !== session) return abort.abort();
      if (response.status === 401) return leave(await detail(response));
      // The log ends before: it is another one, so the page is loaded whole.
      if (response.status === 404) last = 0;
      if (!response.ok) throw new Error(await detail(response));
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "", isOpen = false;
      for (;;) {
        const { value, done } = await reader.read();
        if (own !== session) return abort.abort();
        if (done) return;
        heard();
        if (!isOpen) { isOpen = true; follow.failures = 0; }
        rest += value;
        const lines = rest.split("\n");
        rest = lines.pop();
        for (const line of lines) {
          if (!line.startsWith("id:")) continue;
          last = Math.max(last, Number(line.slice(3)));
          refresh();
        }
        status(`Live, record ${last}`, true);
      }
    } finally {
      clearTimeout(watch);
      abort.abort();
    }
  };

  const start = async (own) => {
    follow.failures = 0;
    while (own === session) {
      try {
        status($("main") ? "Connecting" : "Loading", false);
        await load();
        if (own !== session) return;
        status(`Live, record ${last}`, true);
        await follow(own);
      } catch { /* The server may be gone for a while. */ }
      if (own !== session) return;
      status("Connection lost: trying again", false);
      await pause(Math.min(RECONNECT_MAX, 250 * 2 ** follow.failures++));
    }
  };

  const key = () => [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");

  // Makes the request of a form; a lost response is asked for again, under the same key.
  const act = async (form, button) => {
    const by = $("by").value.trim();
    if (!by) {
      complain("Type in your name first: the ledger records who decided.");
      return $("by").focus();
    }
    localStorage.setItem(AUTHOR, by);
    const { path, run: of, step, shown } = form.dataset;
    const body = { ...Object.fromEntries(new FormData(form, button)), by };
    if (shown) body.shown = shown;
    const place = path.replace("{run}", encodeURIComponent(of)).replace("{step}", encodeURIComponent(step));
    const once = key();
    form.classList.add("busy");
    try {
      for (let tries = 1; ; tries++) {
        try {
          const response = await fetch(place, {
            method: "POST", headers: headers({ "Content-Type": "application/json", "Idempotency-Key": once }), body: JSON.stringify(body),
          });
          if (response.status === 401) return leave(await detail(response));
          if (response.status === 423 || response.status === 429) throw new Error("busy");
          if (!response.ok) return complain(await detail(response));
          break;
        } catch (error) {
          if (tries >= 5) return complain(`The server does not answer (${error.message}): nothing is known about the request.`);
          await pause(300 * tries);
        }
      }
      complain("");
      form.reset();
      clearTimeout(timer);
      timer = null;
      await load();
    } finally {
      form.classList.remove("busy");
    }
  };

  document.addEventListener("submit", (event) => {
    event.preventDefault();
    if (event.target.closest("#login")) enter($("token").value.trim());
    else if (event.target.classList.contains("act")) act(event.target, event.submitter).catch((error) => complain(error.message));
  });
  document.addEventListener("click", (event) => {
    const link = event.target.closest("[data-go]");
    if (!link) return;
    event.preventDefault();
    go(link.dataset.go);
  });
  const go = (name) => {
    run = name;
    sessionStorage.setItem(RUN, run);
    if (named() !== run) history.pushState(null, "", `#run=${encodeURIComponent(run)}`);
    complain("");
    load().then(() => scrollTo(0, 0), () => complain("The server does not answer."));
  };
  addEventListener("popstate", () => {
    const name = named();
    if (token && name && name !== run) go(name);
  });

  const given = /^#token=([^&]+)/.exec(location.hash);
  if (given) history.replaceState(null, "", run ? `#run=${encodeURIComponent(run)}` : location.pathname);
  const kept = given ? decodeURIComponent(given[1]) : sessionStorage.getItem(KEY);
  if (kept) enter(kept); else $("token").focus();
})();
