"use strict";
// The page is complete without this script. It adds: a switch between light and dark, one zoom for all panels, and the
// values under the pointer. Zooming is another view box on each panel's inner drawing; nothing is drawn anew but ticks.
(() => {
  const theme = document.getElementById("theme");
  if (theme) {
    theme.hidden = false;
    theme.addEventListener("click", () => {
      const root = document.documentElement;
      const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
      root.dataset.theme = dark ? "light" : "dark";
    });
  }
  addEventListener("beforeprint", () => document.querySelectorAll("details.print").forEach((one) => { one.open = true; }));

  const block = document.getElementById("points");
  const area = document.getElementById("timeline");
  if (!block || !area) return;
  const data = JSON.parse(block.textContent);
  const whole = data.high - data.low;
  const least = Math.max(whole / 4000, 0.02);
  const canvases = [...area.querySelectorAll(".canvas")];
  const inners = [...area.querySelectorAll(".inner")];
  const labels = [...area.querySelectorAll("[data-x]")];
  const axis = area.querySelector(".xaxis .ticks");
  const clock = document.getElementById("clock");
  const svg = (name, attributes) => {
    const made = document.createElementNS("http" + "://www.w3.org/2000/svg", name);
    for (const key in attributes) made.setAttribute(key, attributes[key]);
    return made;
  };
  let from = data.low, to = data.high;

  function ticks(count) {
    const raw = (to - from) / count, power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= raw * 0.999);
    const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    const made = [];
    for (let place = Math.ceil(from / step - 1e-9); place * step <= to; place++) made.push([place * step, (place * step).toFixed(digits)]);
    return made;
  }
  const share = (seconds) => (seconds - from) / (to - from);
  const percent = (part) => (part * 100).toFixed(3) + "%";

  function draw() {
    const left = (from - data.low) / whole * 10000, width = (to - from) / whole * 10000;
    for (const one of inners) one.setAttribute("viewBox", `${left.toFixed(2)} 0 ${width.toFixed(2)} 1000`);
    const pixels = canvases[0].clientWidth || 1;
    for (const one of labels) {
      const begins = (one.dataset.x * 10000 - left) / width;
      const ends = one.dataset.end === undefined ? 1 : Math.min((one.dataset.end * 10000 - left) / width, 1);
      const shown = Math.max(begins, 0);
      const sticks = one.dataset.end !== undefined;
      const room = (ends - shown) * pixels;
      one.setAttribute("x", percent(shown));
      const fits = sticks ? room > one.getComputedTextLength() + 14 : begins >= 0 && begins < 1;
      one.classList.toggle("hidden", !fits);
      if (!sticks && fits) {
        const turned = room < one.getComputedTextLength() + 8;
        one.setAttribute("text-anchor", turned ? "end" : "start");
        one.setAttribute("dx", turned ? -5 : 5);
      }
    }
    const marks = ticks(Math.max(3, Math.round(pixels / 95)));
    axis.replaceChildren(...marks.map(([at, text]) => {
      const made = svg("text", { x: percent(share(at)), y: 14, "text-anchor": "middle" });
      made.textContent = text;
      return made;
    }));
    for (const one of canvases) {
      one.querySelector(".gridx").replaceChildren(...marks.map(([at]) => svg("line", { x1: percent(share(at)), x2: percent(share(at)), y1: 0, y2: "100%" })));
    }
    document.getElementById("all").disabled = from <= data.low && to >= data.high;
  }
  function show(low, high) {
    const span = Math.min(Math.max(high - low, least), whole);
    const middle = (low + high) / 2;
    from = Math.min(Math.max(middle - span / 2, data.low), data.high - span);
    to = from + span;
    draw();
  }
  const zoom = (factor, at = (from + to) / 2) => show(at - (at - from) * factor, at + (to - at) * factor);
  const pan = (part) => show(from + (to - from) * part, to + (to - from) * part);
  const all = () => show(data.low, data.high);

  function value(line, at) {
    let low = 0, high = line.t.length - 1;
    if (high < 0 || at < line.t[0] - 1 || at > line.t[high] + 1) return null;
    while (low < high) { const middle = (low + high + 1) >> 1; if (line.t[middle] <= at) low = middle; else high = middle - 1; }
    const next = Math.min(low + 1, line.t.length - 1);
    const near = !line.steps && line.t[next] - at < at - line.t[low] ? next : low;
    return line.v[near];
  }
  const number = (one) => one.toLocaleString("en-US", { maximumFractionDigits: one < 10 ? 2 : one < 100 ? 1 : 0 });
  function point(at) {
    for (const one of canvases) {
      const cursor = one.querySelector(".cursor");
      cursor.classList.toggle("hidden", at === null);
      if (at !== null) { cursor.setAttribute("x1", percent(share(at))); cursor.setAttribute("x2", percent(share(at))); }
    }
    for (const name in data.panels) {
      const outputs = document.querySelectorAll(`#panel-${name} output`);
      data.panels[name].forEach((line, place) => {
        const found = at === null ? null : value(line, at);
        outputs[place].textContent = found === null ? "" : number(found);
      });
    }
    clock.textContent = at === null ? "" : `${at.toFixed(2)} s · ${new Date(data.wall_ms + at * 1000).toISOString().slice(11, 23)} UTC`;
  }

  let start = null;
  for (const canvas of canvases) {
    const seconds = (event) => {
      const box = canvas.getBoundingClientRect();
      return from + Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1) * (to - from);
    };
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      start = seconds(event);
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      const at = seconds(event);
      point(at);
      for (const one of canvases) {
        const box = one.querySelector(".select");
        box.classList.toggle("hidden", start === null);
        if (start === null) continue;
        box.setAttribute("x", percent(share(Math.min(start, at))));
        box.setAttribute("width", percent(Math.abs(at - start) / (to - from)));
      }
    });
    const finish = (event) => {
      const begun = start;
      start = null;
      for (const one of canvases) one.querySelector(".select").classList.add("hidden");
      if (begun === null || event.type === "pointercancel") return;
      const at = seconds(event);
      if (Math.abs(at - begun) / (to - from) > 0.01) show(Math.min(begun, at), Math.max(begun, at));
    };
    canvas.addEventListener("pointerup", finish);
    canvas.addEventListener("pointercancel", finish);
    canvas.addEventListener("pointerleave", () => { if (start === null) point(null); });
    canvas.addEventListener("dblclick", all);
    canvas.addEventListener("wheel", (event) => {
      if (event.ctrlKey) zoom(event.deltaY > 0 ? 1.25 : 0.8, seconds(event));
      else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan((event.deltaX || event.deltaY) / 1500);
      else return;
      event.preventDefault();
    }, { passive: false });
  }
  const keys = { "+": () => zoom(0.6), "=": () => zoom(0.6), "-": () => zoom(1.7), ArrowLeft: () => pan(-0.2), ArrowRight: () => pan(0.2), 0: all, Escape: all };
  area.addEventListener("keydown", (event) => {
    const key = keys[event.key];
    if (!key || event.ctrlKey || event.metaKey || event.altKey) return;
    key();
    event.preventDefault();
  });
  const toolbar = document.getElementById("zoom");
  toolbar.hidden = false;
  const press = (id, action) => document.getElementById(id).addEventListener("click", action);
  press("in", () => zoom(0.6)); press("out", () => zoom(1.7)); press("all", all);
  press("left", () => pan(-0.2)); press("right", () => pan(0.2));
  const faults = document.getElementById("faults");
  if (data.bands.length) {
    faults.addEventListener("click", () => {
      const low = Math.min(...data.bands.map((band) => band[0])), high = Math.max(...data.bands.map((band) => band[1]));
      const margin = Math.max((high - low) * 0.08, 0.5);
      show(low - margin, high + margin);
    });
  } else faults.hidden = true;
  addEventListener("resize", draw);
  draw();
})();
