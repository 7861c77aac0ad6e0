// Search: the query, the length, the results, and a second panel to compare with.

import { bytes, count, element, get, nameOf, newest, number, packVector, picture, post, textCard, unpackVector, upload } from "./api.js";
import { powers, qualityChart, spectrumChart } from "./charts.js";
import { Enlarged } from "./enlarge.js";
import { readVector } from "./vectors.js";

const find = (id) => document.getElementById(id);
const PREVIEW = "eigenmap-preview";
const FINE = 1000; // positions of a slider
const PAUSE = 350; // milliseconds without a key before a filter is tried

// Lengths on the slider: all short ones, then eight per doubling, at logarithmic positions.
export function stepsOf(most) {
  const steps = new Set([most]);
  for (let i = 0; 2 ** (i / 8) < most; i += 1) steps.add(Math.round(2 ** (i / 8)));
  return [...steps].filter((dim) => dim <= most).sort((a, b) => a - b);
}

export class SearchView {
  constructor(about, state) {
    this.about = about;
    this.state = state;
    this.steps = stepsOf(about.n_components);
    this.quality = null;
    this.noQuality = "Being measured …";
    this.query = null; // the item searched by, as the server describes it
    this.shown = new Map(); // previous results, to mark new ones: panel -> { asked, dim, top, keys }
    this.refresh = newest(() => this.search());
    this.enlarged = new Enlarged((key) => state.go({ key, vector: null }));
    this.prepare();
  }

  get dim() { return this.within(this.state.get("dim"), this.about.n_components); }
  get dim2() { return this.within(this.state.get("dim2"), this.about.n_components); }
  get compare() { return ["length", "random"].includes(this.state.get("compare")) ? this.state.get("compare") : "off"; }
  get top() { const top = Number(this.state.get("top")); return [12, 24, 48, 96].includes(top) ? top : 24; }

  within(value, fallback) {
    const dim = Number(value);
    return Number.isInteger(dim) && dim >= 1 && dim <= this.about.n_components ? dim : fallback;
  }

  place(dim) { return (FINE * Math.log(dim)) / Math.log(Math.max(2, this.about.n_components)); }

  lengthAt(place) { return this.steps[this.nearestStep(Math.exp((place / FINE) * Math.log(Math.max(2, this.about.n_components))))]; }

  stepped(dim, by) { return this.steps[Math.min(this.steps.length - 1, Math.max(0, this.nearestStep(dim) + by))]; }

  nearestStep(dim) {
    return this.steps.reduce((best, each, i) => (Math.abs(each - dim) < Math.abs(this.steps[best] - dim) ? i : best), 0);
  }

  prepare() {
    const { state, about } = this;
    for (const name of ["dim", "dim2"]) this.prepareSlider(name);
    for (const dim of powers(about.n_components)) {
      const tick = element("span", {}, String(dim));
      tick.style.left = `${(100 * this.place(dim)) / FINE}%`;
      find("ticks").append(tick);
    }
    find("compare").addEventListener("change", (event) => state.set({ compare: event.target.value === "off" ? null : event.target.value }));
    find("top").addEventListener("change", (event) => state.set({ top: event.target.value }));
    this.prepareFilter();
    find("query-picture").addEventListener("click", () => this.enlarged.show([this.query.item]));
    window.addEventListener("resize", () => this.drawCharts());
    for (const fold of document.querySelectorAll(".fold")) this.prepareFold(fold);
    for (const [field, values] of Object.entries(about.fields)) {
      for (const value of values) find("conditions").append(element("option", { value: `${field}=${quoted(value)}` }));
    }
    const [field, values] = Object.entries(about.fields).find(([, some]) => some.length) || [];
    find("where").placeholder = field ? `${field}=${quoted(values[0])}` : "";
    find("where-box").hidden = !Object.keys(about.fields).length;
    find("surprise").addEventListener("click", () => this.surprise());
    const byVector = Boolean(about.vector_length);
    find("pick").hidden = find("drop-hint").hidden = !about.can_encode && !byVector;
    if (byVector) {
      find("pick").textContent = "Choose vector";
      find("pick").title = `A file with ${number(about.vector_length)} numbers: .npy, .json or text`;
      find("file").accept = ".npy,.json,.txt,.csv";
      find("dropping").firstElementChild.textContent = "Drop the vector to search by it";
    }
    find("query-picture").hidden = about.texts;
    find("pick").addEventListener("click", () => find("file").click());
    find("file").addEventListener("change", (event) => {
      if (event.target.files[0]) this.upload(event.target.files[0]);
      event.target.value = "";
    });
    if (about.can_encode || byVector) this.prepareDropping();
  }

  prepareFilter() {
    const field = find("where");
    let pause = null;
    const apply = () => {
      clearTimeout(pause);
      const where = field.value.trim() || null;
      if (where !== this.state.get("where")) this.state.set({ where });
    };
    field.addEventListener("input", () => { clearTimeout(pause); pause = setTimeout(apply, PAUSE); });
    field.addEventListener("change", apply);
  }

  // On a narrow screen, charts and tools are folded away unless the address asks for one of them.
  prepareFold(fold) {
    const part = find(fold.getAttribute("aria-controls"));
    const unfold = (open) => {
      fold.setAttribute("aria-expanded", String(open));
      part.classList.toggle("open", open);
      this.drawCharts();
    };
    fold.addEventListener("click", () => unfold(fold.getAttribute("aria-expanded") !== "true"));
    unfold(part.id === "tools" && Boolean(this.state.get("where") || this.compare !== "off"));
  }

  prepareSlider(name) {
    const slider = find(name);
    slider.max = FINE;
    slider.addEventListener("input", () => this.state.set({ [name]: this.lengthAt(slider.value) }));
    slider.addEventListener("keydown", (event) => {
      const by = { ArrowRight: 1, ArrowUp: 1, PageUp: 8, End: 1e9, ArrowLeft: -1, ArrowDown: -1, PageDown: -8, Home: -1e9 }[event.key];
      if (!by) return;
      event.preventDefault();
      this.state.set({ [name]: this.stepped(this[name], by) });
    });
  }

  prepareDropping() {
    const files = (event) => [...(event.dataTransfer?.types || [])].includes("Files");
    document.addEventListener("dragover", (event) => { if (files(event)) { event.preventDefault(); find("dropping").hidden = false; } });
    document.addEventListener("dragleave", (event) => { if (!event.relatedTarget) find("dropping").hidden = true; });
    document.addEventListener("drop", (event) => {
      find("dropping").hidden = true;
      if (!files(event)) return;
      event.preventDefault();
      this.upload(event.dataTransfer.files[0]);
    });
    document.addEventListener("paste", (event) => {
      const file = [...(event.clipboardData?.files || [])][0];
      if (file) this.upload(file);
      else if (this.about.vector_length && !event.target.matches("input")) {
        const text = event.clipboardData?.getData("text");
        if (text) this.upload(new File([text], "pasted vector"));
      }
    });
  }

  async measureQuality() {
    const quality = await get("api/quality");
    if (quality.state === "computing") { setTimeout(() => this.measureQuality(), 1000); return; }
    if (quality.state === "ready") {
      this.quality = quality;
      find("quality-title").textContent = `mAP against length, ${number(quality.queries)} queries`;
      find("quality-title").title =
        `${quality.metric}: ${number(quality.queries)} items as queries among ${number(quality.gallery)} others`;
    } else this.noQuality = "Needs labels: a folder per class, or metadata with a label.";
    this.drawCharts();
  }

  async surprise() {
    const pick = Math.floor(Math.random() * this.about.overview_items);
    const [item] = (await get("api/items", { number: pick })).items;
    this.state.go({ view: null, key: item.key, vector: null });
  }

  step(by) { this.state.set({ dim: this.stepped(this.dim, by) }); }

  async upload(file) {
    try {
      const byVector = Boolean(this.about.vector_length);
      this.say(byVector ? "Reading the vector …" : "Reading the picture …");
      const found = byVector
        ? await post("api/search", { input: await readVector(file), top: 1 })
        : await upload("api/search/image", file, { top: 1 });
      const word = packVector(found.vector, found.model);
      await remember(word, file);
      this.state.go({ view: null, key: null, vector: word });
    } catch (error) { this.say(error.message, true); }
  }

  say(text, problem = false) {
    find("said").textContent = text;
    find("said").classList.toggle("problem", problem);
  }

  // Update everything that depends on the state; called whenever it changes.
  show() {
    const { dim, about } = this;
    find("dim").value = this.place(dim);
    find("dim").setAttribute("aria-valuetext", `${dim} of ${about.n_components} features`);
    find("dim-text").replaceChildren(String(dim), element("small", {}, ` of ${about.n_components} features`));
    const each = about.bytes_per_item[dim - 1], full = about.bytes_per_item.at(-1);
    const smaller = full / each;
    find("memory").replaceChildren(
      element("span", {}, `${count(each, "byte")} per item`),
      element("span", {}, `${bytes(each * about.items)} in total`),
      element("span", {}, smaller > 1.05 ? `${Number(smaller.toPrecision(smaller < 10 ? 2 : 3))}× smaller` : "full length"),
    );
    find("compare").value = this.compare;
    find("dim2-box").hidden = this.compare !== "length";
    find("dim2").value = this.place(this.dim2);
    find("dim2").setAttribute("aria-valuetext", `${this.dim2} features`);
    find("dim2-text").textContent = this.dim2;
    find("top").value = this.top;
    if (document.activeElement !== find("where")) find("where").value = this.state.get("where") || "";
    find("second").hidden = this.compare === "off";
    find("panels").classList.toggle("two", this.compare !== "off");
    this.drawCharts();
    return this.refresh();
  }

  drawCharts() {
    const other = { off: null, length: { dim: this.dim2 }, random: { dim: this.dim, random: true } }[this.compare];
    const width = (id) => find(id).clientWidth || 300; // 0 while it is hidden
    if (this.quality) find("quality").replaceChildren(qualityChart(this.quality, this.about.n_components, this.dim, other, width("quality")));
    else find("quality").replaceChildren(element("p", { class: "quiet" }, this.noQuality));
    if (this.about.eigenvalues) find("spectrum").replaceChildren(spectrumChart(this.about.eigenvalues, this.dim, width("spectrum")));
    else find("spectrum").replaceChildren(element("p", { class: "quiet" }, "The index contains no model."));
  }

  async search() {
    const key = this.state.get("key"), word = this.state.get("vector");
    if (!key && !word) return this.state.set({ key: this.about.opening });
    const by = word ? unpackVector(word) : { key };
    const filter = this.state.get("where");
    const ask = (dim, features) => this.ask(by, dim, features, filter);
    const began = performance.now();
    try {
      asMapping(conditionsOf(filter || "")); // an invalid filter is refused here, before any request
      const wanted = [ask(this.dim, "ordered")];
      if (this.compare === "length") wanted.push(ask(this.dim2, "ordered"));
      if (this.compare === "random") wanted.push(ask(this.dim, "random"));
      const [first, second] = await Promise.all(wanted);
      if (first.model !== this.about.model) return window.location.reload(); // the index was replaced
      await this.showQuery(key, word);
      find("where").removeAttribute("aria-invalid");
      this.display(first, second || null);
      this.say(`${Math.max(1, Math.round(performance.now() - began))} ms`);
    } catch (error) {
      if (await this.replaced()) return window.location.reload();
      this.fail(error, Boolean(filter));
    }
    return null;
  }

  // Clear the results of the previous search, which would look like an answer to this one.
  fail(error, filtered) {
    if (filtered && (error instanceof FilterError || error.status === 422)) find("where").setAttribute("aria-invalid", "true");
    this.shown.clear();
    for (const panel of ["a", "b"]) {
      for (const part of ["panel", "facts", "results"]) find(`${part}-${panel}`).replaceChildren();
    }
    this.say(error.message, true);
  }

  // Whether an index of another model has replaced the one that this page shows.
  replaced() { return get("api/about").then((about) => about.model !== this.about.model, () => false); }

  ask(by, dim, features, filter) {
    if (by.key) return get("api/search", { key: by.key, dim, top: this.top, features, pictures: !this.about.large_pictures, where: filter ? conditionsOf(filter) : [] });
    return post("api/search", { ...by, dim, top: this.top, features, pictures: !this.about.large_pictures, where: filter ? asMapping(conditionsOf(filter)) : null });
  }

  async showQuery(key, word) {
    const asked = word || key;
    if (this.query?.asked === asked) return;
    if (word) {
      const kept = JSON.parse(sessionStorage.getItem(placeOf(word)) || "null") || { name: this.about.vector_length ? "uploaded vector" : "uploaded picture" };
      this.query = { asked, key: null, label: null, item: { id: kept.name, source: kept.preview } };
      find("query-picture").disabled = !kept.preview;
      find("query-picture").replaceChildren(kept.preview ? element("img", { src: kept.preview, alt: kept.name }) : "?");
      find("query-name").textContent = find("query-name").title = kept.name;
      find("query-label").textContent = "uploaded, not stored";
      return;
    }
    const item = await get(`api/items/${key}`, { pictures: !this.about.large_pictures });
    this.query = { asked, key, label: item.metadata.label ?? null, item };
    const { texts } = this.about;
    find("query-picture").disabled = texts || item.picture === null;
    find("query-picture").replaceChildren(texts ? "" : picture(item));
    find("query-name").textContent = find("query-name").title = nameOf(item, texts);
    const facts = Object.entries(item.metadata).filter(([name]) => !texts || !["title", "text"].includes(name));
    const words = facts.map(([name, value]) => `${name} ${value}`);
    if (texts && item.metadata.title && item.metadata.text) words.unshift(String(item.metadata.text));
    if (texts) words.push(String(item.id));
    find("query-label").textContent = find("query-label").title = words.join(" · ");
  }

  display(first, second) {
    const keys = (found) => found.items.map((item) => item.key);
    const before = this.shown.get("a");
    const sameQuery = before && before.asked === this.query.asked;
    const words = (found) => (found.features === "random" ? count(found.dim, "random feature") : count(found.dim, "feature"));
    find("panel-a").textContent = words(first);
    this.fill("a", first, second ? keys(second) : sameQuery && before.dim !== first.dim ? before.keys : null, Boolean(second));
    if (second) {
      find("panel-b").textContent = words(second);
      this.fill("b", second, keys(first), true);
    }
    if (!sameQuery || before.dim !== first.dim || before.top !== this.top) {
      this.shown.set("a", { asked: this.query.asked, dim: first.dim, top: this.top, keys: keys(first) });
    }
  }

  fill(panel, found, others, compared) {
    const label = this.query.label;
    const alike = found.items.filter((item) => label !== null && item.metadata.label === label).length;
    const fresh = others ? found.items.filter((item) => !others.includes(item.key)).length : 0;
    const facts = [];
    if (label !== null && found.items.length) facts.push(`${alike} of ${found.items.length} are ${label}`);
    if (others) facts.push(compared ? `${fresh} only here (+)` : `${fresh} new at this length (+)`);
    if (found.features === "random" && this.about.overview_items < this.about.items) facts.push(`among ${count(this.about.overview_items, "item")}`);
    if (!found.items.length) facts.push(this.state.get("where") ? "no item matches the filter" : "nothing found");
    find(`facts-${panel}`).textContent = facts.join(" · ");
    find(`results-${panel}`).replaceChildren(...found.items.map((item, rank) => this.card(found.items, rank, others, compared)));
  }

  card(items, rank, others, compared) {
    const item = items[rank];
    const was = others ? others.indexOf(item.key) : rank;
    const fresh = was < 0;
    const moved = was - rank;
    const text = item.metadata.label;
    const alike = text !== undefined && text === this.query.label;
    const mark = fresh ? "+" : moved > 0 ? `↑${moved}` : moved < 0 ? `↓${-moved}` : "";
    const { texts } = this.about;
    const said = `${rank + 1}. ${nameOf(item, texts)}${text === undefined ? "" : `, ${text}`}, similarity ${item.score.toFixed(3)}${fresh ? (compared ? ", only here" : ", new at this length") : ""}`;
    const enlarge = () => this.enlarged.show(items, rank);
    const card = element(
      "button",
      { type: "button", class: `item${fresh ? " fresh" : ""}${texts ? " words-only" : ""}`, title: said, "aria-label": said, "data-key": item.key,
        onclick: () => this.state.go({ key: item.key, vector: null }),
        onkeydown: (event) => { if (event.key === "e" && !texts && item.picture !== null) enlarge(); } },
      texts ? textCard(item) : element("span", { class: "thumb" }, picture(item, this.about.large_pictures)),
      element("span", { class: "caption" },
        element("span", { class: `label${alike ? " alike" : ""}` }, text === undefined ? "" : `${alike ? "✓ " : ""}${text}`),
        element("span", {}, item.score.toFixed(3))),
      ...(mark ? [element("span", { class: "mark" }, mark)] : []),
    );
    // Skipped by Tab, which goes from one result to the next; the key e does the same.
    const button = element("button", { type: "button", class: "enlarge", tabindex: -1, "aria-label": `Enlarge ${item.id}`, onclick: enlarge }, "⤢");
    return element("div", { class: "cell" }, card, ...(texts || item.picture === null ? [] : [button]));
  }
}

const quoted = (value) => (typeof value === "string" && !/\s/.test(value) ? value : JSON.stringify(value));

class FilterError extends Error {}

// `label=coat year>=2020`: conditions are separated by spaces, and quotes keep spaces together.
export const conditionsOf = (text) => text.match(/(?:[^\s"]|"(?:[^"\\]|\\.)*")+/g) || [];

function asMapping(conditions) {
  const where = {};
  for (const each of conditions) {
    const [, field, operator, text] = /^([^=<>!]+)(<=|>=|!=|==|=|<|>)(?![=<>!])(.*)$/s.exec(each) || [];
    if (!field) throw new FilterError(`${each} is not a condition; write one as label=cat or year>=2020`);
    let value = text;
    try { value = JSON.parse(text); } catch { /* a plain word */ }
    const sign = operator === "=" ? "==" : operator;
    where[field] = { ...where[field], [sign]: [...(where[field]?.[sign] || []), value] }; // all of them must hold
  }
  return where;
}

const placeOf = (word) => `${PREVIEW}-${word.slice(0, 96)}`;

// Keep the name and preview of an upload in this tab for a reload; the search works without them too.
async function remember(word, file) {
  try {
    const preview = await smallPicture(file).catch(() => null);
    sessionStorage.setItem(placeOf(word), JSON.stringify({ name: file.name || "pasted picture", preview }));
  } catch { /* storage is full or not allowed */ }
}

async function smallPicture(file) {
  const bitmap = await createImageBitmap(file);
  const canvas = element("canvas", { width: 128, height: 128 });
  const side = Math.min(bitmap.width, bitmap.height);
  canvas.getContext("2d").drawImage(bitmap, (bitmap.width - side) / 2, (bitmap.height - side) / 2, side, side, 0, 0, 128, 128);
  return canvas.toDataURL("image/jpeg", 0.85);
}
