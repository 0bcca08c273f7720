// The script of the dashboard: live values, the list of events, keys, the theme, copying. All
// pages work without it.
"use strict";
(() => {
  const root = document.documentElement;
  const saved = localStorage.getItem("osqueue-theme");
  if (saved === "light" || saved === "dark") root.dataset.theme = saved;

  const $ = (id) => document.getElementById(id);
  const minGap = 1000; // ms between two refreshes
  const pollGap = 5000; // ms, when nothing happens
  let refreshing = false, wanted = false, live = false, last = 0, timer = 0, whereTimer = 0;

  // busy reports whether a refresh would take the focus, a form or a selection from the reader.
  const busy = (el) => el.contains(document.activeElement) ||
    el.querySelector("details[open]") || (el.matches(":hover") && el.querySelector("form")) || // a button must not move under the pointer
    (String(getSelection()) && el.contains(getSelection().anchorNode));

  // refresh loads the page again in the background and replaces its live parts.
  async function refresh() {
    clearTimeout(timer);
    if (refreshing || document.hidden) { wanted = true; return; }
    refreshing = true; wanted = false; last = Date.now();
    try {
      const url = new URL(location.href);
      for (const name of ["notice", "n", "lsn"]) url.searchParams.delete(name);
      const res = await fetch(url, { headers: { "X-Live": "1" } });
      if (res.ok && ($("problem") || res.redirected)) { location.replace(url); return; } // the page exists now, or the session has ended
      if (res.ok) {
        const doc = new DOMParser().parseFromString(await res.text(), "text/html");
        for (const el of document.querySelectorAll("[data-live]")) {
          const fresh = doc.getElementById(el.id);
          if (!fresh || busy(el)) continue;
          if (el.innerHTML !== fresh.innerHTML) el.innerHTML = fresh.innerHTML;
        }
      }
      show(res.ok, res.status === 404 && "gone");
    } catch { show(false); }
    refreshing = false;
    timer = setTimeout(refresh, wanted ? minGap : pollGap);
  }
  function soon() {
    if (wanted) return;
    wanted = true;
    clearTimeout(timer);
    timer = setTimeout(refresh, Math.max(0, minGap - (Date.now() - last)));
  }
  function show(on, why) {
    const live = $("live");
    if (!live) return;
    live.hidden = false;
    live.classList.toggle("off", !on);
    live.textContent = on ? "live" : why || "reconnecting";
  }

  const whereGap = 1000; // ms between two looks at the node
  const whereMost = 2000; // ms in which a node that is alive answers
  let chips = "";
  // where keeps the chips of the head: the node, its leader, and whether it answers. A frozen node
  // keeps its connections, so an error of the stream does not show it.
  async function where() {
    clearTimeout(whereTimer);
    const el = $("where");
    if (document.hidden) return; // visibilitychange looks again
    try {
      const res = await fetch("/ui/where", { signal: AbortSignal.timeout(whereMost) });
      const html = await res.text();
      if (res.ok && !res.redirected && html !== chips) {
        const named = el.textContent, doc = new DOMParser().parseFromString(html, "text/html").body;
        chips = html;
        if (doc.children.length !== el.children.length) el.replaceChildren(...doc.childNodes);
        else [...el.children].forEach((c, i) => { const d = doc.children[i]; c.textContent = d.textContent; c.className = d.className; c.title = d.title; }); // keeps the focus
        if (live && named !== el.textContent) soon();
      }
    } catch {
      chips = "";
      const chip = el.querySelector(".chip");
      if (chip) { chip.textContent = el.dataset.node + " · no answer"; chip.className = "chip bad"; }
      if (live) show(false);
    }
    whereTimer = setTimeout(where, whereGap);
  }

  const kinds = ["job.enqueued", "job.due", "job.unblocked", "job.claimed", "job.completed", "job.failed", "job.lease_expired",
    "job.timed_out", "job.released", "job.dead", "job.cancelling", "job.edited", "job.signalled", "job.suspended", "job.cancelled", "job.expired", "job.retried", "job.progress", "job.removed",
    "broker.registered", "worker.registered", "worker.dead", "worker.set", "queue.set", "limit.set", "cron.put", "cron.deleted", "cron.fired",
    "cron.skipped", "batch.ended", "bucket.away", "bucket.back", "bucket.damaged", "bucket.healed", "writes.refused", "writes.accepted"];
  let held = false;
  function row(e) {
    const tr = document.createElement("tr");
    const cell = (text, href) => {
      const td = document.createElement("td");
      if (href && text) {
        const a = document.createElement("a");
        a.href = href; a.textContent = text; td.append(a);
      } else td.textContent = text || "";
      tr.append(td);
    };
    cell(new Date(e.at).toISOString().slice(11, 23));
    cell(e.kind);
    cell(e.type || e.name);
    cell(e.jobId, "/ui/jobs/" + encodeURIComponent(e.jobId || ""));
    cell([e.error || e.message || e.workerId, e.actor && "by " + e.actor].filter(Boolean).join(" · "));
    return tr;
  }
  // The streams of the page. A hidden page has none: without TLS a browser opens six connections to
  // a node, for all of its tabs.
  const streams = {};
  function connect() {
    if (!live || document.hidden) return;
    if (!streams.events && !document.body.hasAttribute("data-poll")) follow();
    if ($("livelog") && !streams.log && !ended) followLog($("livelog"));
  }
  function disconnect() {
    for (const name in streams) { streams[name].close(); delete streams[name]; }
  }
  // keep is the source of a stream, which comes back when the node has refused it. after is the id of
  // its last event; "" begins at the present.
  function keep(name, path, after) {
    const source = streams[name] = new EventSource(path + (after && "?lastEventId=" + encodeURIComponent(after)));
    source.onerror = () => {
      if (name === "events") show(false);
      if (source.readyState !== EventSource.CLOSED || streams[name] !== source) return;
      delete streams[name];
      setTimeout(connect, 2000);
    };
    return source;
  }

  let newest = ""; // the id of the last event in the list
  let hiddenAt = Date.now();
  const replayMost = 60000; // ms after which a page that was hidden begins at the present: a node keeps many events
  function follow() {
    const list = $("events"); // absent on the other pages
    const source = keep("events", "/ui/stream", newest);
    source.onopen = () => show(true);
    const got = (m) => {
      if (!list) { soon(); return; }
      newest = m.lastEventId;
      if (held) return;
      $("noevents").hidden = true;
      list.prepend(row(JSON.parse(m.data)));
      while (list.rows.length > 200) list.deleteRow(-1);
    };
    for (const kind of kinds) source.addEventListener(kind, got);
  }

  const logMost = 200000; // characters of a live log that stay on the page
  let ended = false, position = ""; // of the live log, whose last event has the id position
  // followLog appends what the job writes, and scrolls while the reader is at the end.
  function followLog(box) {
    const pre = box.querySelector("pre"), source = keep("log", box.dataset.log, position);
    source.addEventListener("log", (m) => {
      position = m.lastEventId;
      const c = JSON.parse(m.data);
      const end = pre.scrollHeight - pre.scrollTop - pre.clientHeight < 40;
      box.hidden = false;
      const lost = c.lost ? `\n… ${c.lost} bytes are missing here\n` : "";
      const text = (c.text || "").startsWith("osqueue.sealed:") ? "(encrypted)\n" : c.text || "";
      pre.textContent = (pre.textContent + lost + text).slice(-logMost);
      if (end) pre.scrollTop = pre.scrollHeight;
    });
    source.addEventListener("end", () => { ended = true; source.close(); soon(); });
  }

  // slide shows the time of the slider while it moves, and the state when it rests.
  function slide(range) {
    const flag = "osqueue-slide";
    let rest = 0;
    range.oninput = () => {
      $("slidetime").textContent = new Date(Number(range.value)).toISOString().slice(0, 19).replace("T", " ") + " UTC";
      clearTimeout(rest);
    };
    range.onchange = () => {
      clearTimeout(rest);
      rest = setTimeout(() => { sessionStorage.setItem(flag, "1"); range.form.requestSubmit(); }, 700);
    };
    if (sessionStorage.getItem(flag)) range.focus();
    sessionStorage.removeItem(flag);
  }

  let before = "";
  const places = { o: "./", j: "jobs", d: "dead", q: "queues", s: "schedules", w: "workers", b: "batches", l: "limits", e: "events", c: "cluster", h: "hooks", p: "past" };
  function key(e) {
    if (e.ctrlKey || e.metaKey || e.altKey || e.target.matches("input:not([type=range]),select,textarea")) return;
    const was = before;
    before = "";
    if (was === "g" && e.key in places) location.href = new URL(places[e.key], document.baseURI);
    else if (e.key === "g") { before = "g"; setTimeout(() => { before = ""; }, 1500); }
    else if (e.key === "/" && $("search")) { e.preventDefault(); $("search").focus(); }
    else if (e.key === "?") $("keys").showModal();
    else if (e.key === "n" && $("next")) $("next").click();
  }

  document.addEventListener("DOMContentLoaded", () => {
    const url = new URL(location.href); // a reload shows the present, without the notice
    for (const name of ["notice", "n", "lsn"]) url.searchParams.delete(name);
    if (!$("problem")) history.replaceState(history.state, "", url);
    $("theme").hidden = false;
    $("theme").onclick = () => {
      const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
      root.dataset.theme = dark ? "light" : "dark";
      localStorage.setItem("osqueue-theme", root.dataset.theme);
    };
    const here = document.querySelector("nav [aria-current]");
    if (here) here.parentElement.scrollLeft = here.offsetLeft - 40;
    for (const b of document.querySelectorAll("[data-copy]")) {
      b.hidden = false;
      b.onclick = async () => {
        await navigator.clipboard.writeText($(b.dataset.copy).textContent);
        b.textContent = "Copied";
      };
    }
    if ($("hold")) {
      $("hold").hidden = false;
      $("hold").onclick = () => { held = !held; $("hold").textContent = held ? "Continue" : "Hold"; };
    }
    document.addEventListener("keydown", key);
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) { disconnect(); hiddenAt = Date.now(); return; }
      if (Date.now() - hiddenAt > replayMost) newest = "";
      connect();
      if (live) refresh();
      if ($("where").dataset.node) where();
    });
    if ($("where").dataset.node) where();
    if ($("slide")) slide($("slide"));
    if (document.body.hasAttribute("data-still")) return; // it does not change
    live = true;
    connect();
    addEventListener("pagehide", disconnect);
    timer = setTimeout(refresh, pollGap);
  });
})();
