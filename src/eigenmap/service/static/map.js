// The map: every item is a point placed by two eigenfunctions; as many as fit without overlap are shown as pictures.

import { element, get, imageUrl, nameOf, newest, number } from "./api.js";
import { svg } from "./charts.js";

const find = (id) => document.getElementById(id);
const SIDE = 46, WIDE = 132, LINE = 15, LONGEST = 22, GAP = 6, MARGIN = 0.06, MOST_PICTURES = 250, KEPT_PICTURES = 2000;
// Paul Tol's "muted" colours, which colour-blind readers can tell apart; the dark ones are lighter on a dark page.
const LIGHT = ["#332288", "#88ccee", "#44aa99", "#117733", "#999933", "#ddcc77", "#cc6677", "#882255", "#aa4499", "#777777"];
const DARK = ["#8a80e0", "#88ccee", "#44aa99", "#4fae72", "#b5b54a", "#ddcc77", "#e08592", "#d0609a", "#cf76c0", "#bbbbbb"];

export class MapView {
  constructor(about, state) {
    this.about = about;
    this.state = state;
    this.canvas = find("map");
    this.box = about.texts ? { width: WIDE, height: LINE } : { width: SIDE, height: SIDE };
    this.points = null; // Uint16Array of x, y
    this.classes = null;
    this.axes = "";
    this.items = new Map(); // number -> item, for those that were on display
    this.images = new Map(); // key -> Image
    this.visible = [];
    this.where = { x: 0.5, y: 0.5, zoom: 1 };
    this.load = newest(() => this.loadPictures());
    this.fill();
    this.listen();
    new ResizeObserver(() => this.draw()).observe(this.canvas);
  }

  fill() {
    for (const axis of ["x", "y"]) {
      for (let j = 1; j <= this.about.gallery_features; j += 1) find(`map-${axis}`).append(element("option", { value: j }, `feature ${j}`));
      find(`map-${axis}`).addEventListener("change", (event) => this.state.set({ [axis]: event.target.value, at: null }));
    }
    this.legend();
  }

  legend() {
    const dot = (colour) => {
      const drawing = svg("svg", { viewBox: "0 0 8 8", "aria-hidden": "true" }, svg("circle", { cx: 4, cy: 4, r: 4, fill: colour }));
      return drawing;
    };
    find("legend").replaceChildren(...this.about.classes.map((name, i) => element("li", {}, dot(this.colours()[i]), name)));
  }

  colours() { return document.documentElement.dataset.theme === "dark" ? DARK : LIGHT; }

  feature(axis, fallback) {
    const value = Number(this.state.get(axis));
    return Number.isInteger(value) && value >= 1 && value <= this.about.gallery_features ? value : Math.min(fallback, this.about.gallery_features);
  }

  async show() {
    const x = this.feature("x", 1), y = this.feature("y", 2);
    find("map-x").value = x;
    find("map-y").value = y;
    const [cx, cy, zoom] = (this.state.get("at") || "").split(",").map(Number);
    this.where = zoom > 0 && Number.isFinite(cx + cy + zoom) ? { x: cx, y: cy, zoom: Math.min(Math.max(zoom, 0.5), 4000) } : { x: 0.5, y: 0.5, zoom: 1 };
    if (this.axes !== `${x},${y}`) {
      const map = await get("api/map", { x, y });
      this.axes = `${x},${y}`;
      this.points = new Uint16Array(unpack(map.points).buffer);
      this.classes = map.classes ? unpack(map.classes) : null;
    }
    this.legend();
    this.draw();
    return this.load();
  }

  size() {
    const box = this.canvas.getBoundingClientRect();
    return { width: box.width, height: box.height };
  }

  // From positions in [0, 1] to pixels; larger feature values are further up.
  transform() {
    const { width, height } = this.size(), { x, y, zoom } = this.where;
    const wide = width * (1 - 2 * MARGIN) * zoom, tall = height * (1 - 2 * MARGIN) * zoom;
    return { left: width / 2 - x * wide, top: height / 2 + y * tall, wide: wide / 65535, tall: tall / 65535 };
  }

  draw() {
    if (!this.points || find("view-map").hidden) return;
    const { width, height } = this.size(), ratio = window.devicePixelRatio || 1;
    if (!width) return;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    const pen = this.canvas.getContext("2d");
    pen.scale(ratio, ratio);
    this.drawPoints(pen, width, height);
    this.visible = this.choose(width, height);
    for (const { number: n, x, y } of this.visible) this.drawPicture(pen, n, x, y);
    if (this.canvas.matches(":focus-visible")) this.drawMiddle(pen, width, height);
  }

  drawPoints(pen, width, height) {
    const { left, top, wide, tall } = this.transform(), { points, classes } = this;
    const colours = this.colours(), plain = getComputedStyle(document.documentElement).getPropertyValue("--muted");
    const large = points.length > 40000 ? 1.6 : 3;
    pen.globalAlpha = 0.6;
    let last = null;
    for (let i = 0; i < points.length; i += 2) {
      const x = left + points[i] * wide, y = top - points[i + 1] * tall;
      if (x < 0 || y < 0 || x > width || y > height) continue;
      const colour = classes ? colours[classes[i >> 1]] || plain : plain;
      if (colour !== last) { pen.fillStyle = colour; last = colour; }
      pen.fillRect(x - large / 2, y - large / 2, large, large);
    }
    pen.globalAlpha = 1;
  }

  // Items whose pictures fit without overlap. Numbers are in random order, so taking the first ones is a fair sample.
  choose(width, height) {
    const { left, top, wide, tall } = this.transform(), { width: w, height: h } = this.box;
    const across = w + GAP, down = h + GAP;
    const taken = new Map(), chosen = [];
    for (let i = 0; i < this.points.length && chosen.length < MOST_PICTURES; i += 2) {
      const x = left + this.points[i] * wide, y = top - this.points[i + 1] * tall;
      if (x < w / 2 || y < h / 2 || x > width - w / 2 || y > height - h / 2) continue;
      const column = Math.floor(x / across), row = Math.floor(y / down);
      let free = true;
      for (let c = column - 1; free && c <= column + 1; c += 1) {
        for (let r = row - 1; free && r <= row + 1; r += 1) {
          const other = taken.get(c * 10000 + r);
          free = !other || Math.abs(other.x - x) >= across || Math.abs(other.y - y) >= down;
        }
      }
      if (!free) continue;
      const place = { number: i >> 1, x, y };
      taken.set(column * 10000 + row, place);
      chosen.push(place);
    }
    return chosen;
  }

  drawPicture(pen, n, x, y) {
    const item = this.items.get(n), image = item && this.images.get(item.key);
    if (item && this.about.texts) { this.drawWords(pen, n, item, x, y); return; }
    if (!image?.complete || !image.naturalWidth) return;
    pen.drawImage(image, x - SIDE / 2, y - SIDE / 2, SIDE, SIDE);
    const code = this.classes ? this.classes[n] : 255;
    pen.lineWidth = 2;
    pen.strokeStyle = this.colours()[code] || "#888";
    pen.strokeRect(x - SIDE / 2, y - SIDE / 2, SIDE, SIDE);
  }

  drawWords(pen, n, item, x, y) {
    const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name);
    const title = nameOf(item, true), text = title.length > LONGEST ? `${title.slice(0, LONGEST - 1)}…` : title;
    pen.font = "12px system-ui, sans-serif";
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    pen.lineWidth = 3;
    pen.strokeStyle = colour("--paper"); // makes the words stand out from the points behind them
    pen.strokeText(text, x, y, WIDE);
    pen.fillStyle = colour("--ink");
    pen.fillText(text, x, y, WIDE);
    const own = this.classes && this.colours()[this.classes[n]];
    if (!own) return;
    pen.fillStyle = own; // a bar below the words shows the class, since words in pale colours would be hard to read
    const wide = Math.min(WIDE, pen.measureText(text).width);
    pen.fillRect(x - wide / 2, y + LINE / 2, wide, 2);
  }

  drawMiddle(pen, width, height) {
    pen.strokeStyle = getComputedStyle(document.documentElement).getPropertyValue("--ink");
    pen.lineWidth = 1;
    const { width: w, height: h } = this.box;
    pen.strokeRect(width / 2 - w / 2 - 4, height / 2 - h / 2 - 4, w + 8, h + 8);
  }

  async loadPictures() {
    const wanted = this.visible.map((place) => place.number);
    const unknown = wanted.filter((n) => !this.items.has(n));
    if (unknown.length) {
      const { items } = await get("api/items", { number: unknown, pictures: true });
      items.forEach((item, i) => this.items.set(unknown[i], item));
    }
    if (this.images.size > KEPT_PICTURES) this.images.clear();
    for (const n of this.about.texts ? [] : wanted) {
      const { key, picture } = this.items.get(n);
      if (this.images.has(key) || picture === null) continue;
      const image = new Image();
      image.src = picture || imageUrl(key);
      image.addEventListener("load", () => this.drawSoon(), { once: true });
      this.images.set(key, image);
    }
    this.say(`${number(wanted.length)} of ${number(this.about.overview_items)} items as ${this.about.texts ? "texts" : "pictures"}`);
    this.drawSoon();
  }

  drawSoon() {
    if (this.drawing) return;
    this.drawing = true;
    requestAnimationFrame(() => { this.drawing = false; this.draw(); });
  }

  say(text) { find("map-said").textContent = text; }

  // Moving

  move(dx, dy) {
    const { width, height } = this.size(), { zoom } = this.where;
    this.where.x -= dx / (width * (1 - 2 * MARGIN) * zoom);
    this.where.y += dy / (height * (1 - 2 * MARGIN) * zoom);
    this.drawSoon();
    this.settle();
  }

  zoomAt(px, py, factor) {
    const { width, height } = this.size();
    const zoom = Math.min(Math.max(this.where.zoom * factor, 0.5), 4000);
    const grown = zoom / this.where.zoom;
    const dx = px - width / 2, dy = py - height / 2;
    this.move(-dx, -dy);
    this.where.zoom *= grown;
    this.move(dx, dy);
  }

  settle() {
    clearTimeout(this.settling);
    this.settling = setTimeout(() => {
      const { x, y, zoom } = this.where;
      this.state.set({ at: `${x.toFixed(4)},${y.toFixed(4)},${zoom.toPrecision(4)}` });
    }, 120);
  }

  home() { this.state.set({ at: null }); }

  at(px, py) {
    const { width, height } = this.box;
    return this.visible.find(({ x, y }) => Math.abs(x - px) <= width / 2 && Math.abs(y - py) <= height / 2);
  }

  open(place) {
    const item = place && this.items.get(place.number);
    if (item) this.state.go({ view: null, key: item.key, vector: null });
  }

  listen() {
    const { canvas } = this, pointers = new Map();
    let moved = 0;
    const spread = () => { const [a, b] = [...pointers.values()]; return Math.hypot(a.x - b.x, a.y - b.y); };
    const local = (event) => { const box = canvas.getBoundingClientRect(); return { x: event.clientX - box.left, y: event.clientY - box.top }; };
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      pointers.set(event.pointerId, local(event));
      moved = 0;
    });
    canvas.addEventListener("pointermove", (event) => {
      const here = local(event), before = pointers.get(event.pointerId);
      if (!before) {
        const over = this.at(here.x, here.y), item = over && this.items.get(over.number);
        canvas.title = item ? `${nameOf(item, this.about.texts)}${item.metadata.label === undefined ? "" : `, ${item.metadata.label}`}` : "";
        return;
      }
      const apart = pointers.size === 2 ? spread() : 0;
      pointers.set(event.pointerId, here);
      moved += Math.abs(here.x - before.x) + Math.abs(here.y - before.y);
      this.move((here.x - before.x) / pointers.size, (here.y - before.y) / pointers.size);
      if (pointers.size === 2 && apart > 0) this.zoomAt(here.x, here.y, spread() / apart);
    });
    const release = (event) => {
      const last = pointers.size === 1 && pointers.has(event.pointerId);
      pointers.delete(event.pointerId);
      if (event.type === "pointerup" && last && moved < 5) { const { x, y } = local(event); this.open(this.at(x, y)); }
    };
    canvas.addEventListener("pointerup", release);
    canvas.addEventListener("pointercancel", release);
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      const { x, y } = local(event);
      this.zoomAt(x, y, Math.exp(-Math.max(-120, Math.min(120, event.deltaY)) / 250));
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => this.key(event));
    canvas.addEventListener("focus", () => this.drawSoon());
    canvas.addEventListener("blur", () => this.drawSoon());
    find("map-in").addEventListener("click", () => this.zoomMiddle(1.6));
    find("map-out").addEventListener("click", () => this.zoomMiddle(1 / 1.6));
    find("map-home").addEventListener("click", () => this.home());
  }

  zoomMiddle(factor) { const { width, height } = this.size(); this.zoomAt(width / 2, height / 2, factor); }

  middle() {
    const { width, height } = this.size();
    const far = ({ x, y }) => Math.hypot(x - width / 2, y - height / 2);
    return this.visible.reduce((best, place) => (!best || far(place) < far(best) ? place : best), null);
  }

  key(event) {
    const steps = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] };
    if (event.key in steps) this.move(...steps[event.key]);
    else if (event.key === "+" || event.key === "=") this.zoomMiddle(1.6);
    else if (event.key === "-") this.zoomMiddle(1 / 1.6);
    else if (event.key === "Home") this.home();
    else if (event.key === "Enter") this.open(this.middle());
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}

const unpack = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
