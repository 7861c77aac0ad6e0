// The gallery of eigenfunctions, and the collection sorted by one of them.

import { element, get, nameOf, number, picture, textCard } from "./api.js";
import { histogram } from "./charts.js";

const find = (id) => document.getElementById(id);
const PAGE = 96, AT_ONCE = 16, LINES = 4;

export class GalleryView {
  constructor(about, state) {
    this.about = about;
    this.state = state;
    this.loaded = null;
    this.sorted = { feature: 0, first: "most", shown: 0 };
    find("sorted-back").addEventListener("click", () => state.go({ feature: null }));
    find("sorted-first").addEventListener("change", (event) => state.set({ first: event.target.value === "most" ? null : "least" }));
    find("sorted-more").addEventListener("click", () => this.more());
  }

  async show() {
    const feature = Number(this.state.get("feature"));
    const open = Number.isInteger(feature) && feature >= 1 && feature <= this.about.gallery_features;
    find("features").hidden = open;
    find("sorted").hidden = !open;
    if (open) return this.sort(feature, this.state.get("first") === "least" ? "least" : "most");
    this.loaded ||= this.load();
    return this.loaded;
  }

  async load() {
    for (let first = 1; first <= this.about.gallery_features; first += AT_ONCE) {
      const features = await get("api/features", { first, count: AT_ONCE, pictures: true });
      find("feature-list").append(...features.map((each) => this.card(each)));
    }
  }

  card(feature) {
    const strip = (name, items) =>
      element("div", { class: this.about.texts ? "strip lines" : "strip" }, element("span", { class: "end" }, name),
        ...(this.about.texts ? items.slice(0, LINES) : items).map((item) => this.small(item)));
    const mu = feature.eigenvalue === null ? "" : `eigenvalue ${feature.eigenvalue.toFixed(3)}`;
    return element(
      "article",
      { class: "feature card-box", "data-feature": feature.number },
      element(
        "button",
        { type: "button", class: "head", "aria-label": `Sort the collection by feature ${feature.number}, ${mu}`,
          onclick: () => this.state.go({ feature: feature.number, first: null }) },
        element("span", { class: "number" }, String(feature.number)),
        element("span", { class: "mu" }, mu),
        histogram(feature.counts),
      ),
      strip("most", feature.most),
      strip("least", feature.least),
    );
  }

  small(item) {
    return element(
      "button",
      { type: "button", title: `${nameOf(item, this.about.texts)} (${item.score.toFixed(3)})`, "aria-label": `Search by ${nameOf(item, this.about.texts)}`,
        onclick: () => this.state.go({ view: null, key: item.key, vector: null }) },
      this.about.texts ? nameOf(item, true) : picture(item),
    );
  }

  async sort(feature, first) {
    find("sorted-first").value = first;
    if (this.sorted.feature === feature && this.sorted.first === first) return;
    this.sorted = { feature, first, shown: 0 };
    const mu = this.about.eigenvalues ? `, eigenvalue ${this.about.eigenvalues[feature - 1].toFixed(3)}` : "";
    find("sorted-title").textContent = `Sorted by feature ${feature}${mu}`;
    find("sorted-items").replaceChildren();
    await this.more();
  }

  async more() {
    const { feature, first, shown } = this.sorted;
    const page = await get(`api/features/${feature}/items`, { offset: shown, limit: PAGE, first, pictures: true });
    if (feature !== this.sorted.feature || first !== this.sorted.first) return;
    this.sorted.shown = shown + page.items.length;
    find("sorted-items").append(...page.items.map((item) => this.item(item)));
    const left = page.total - this.sorted.shown;
    find("sorted-more").hidden = left <= 0;
    find("sorted-more").textContent = `More (${number(left)} left)`;
  }

  item(item) {
    const label = item.metadata.label ?? "";
    return element(
      "button",
      { type: "button", class: this.about.texts ? "item words-only" : "item", title: nameOf(item, this.about.texts), "aria-label": `Search by ${nameOf(item, this.about.texts)}, value ${item.score.toFixed(3)}`,
        onclick: () => this.state.go({ view: null, key: item.key, vector: null }) },
      this.about.texts ? textCard(item) : element("span", { class: "thumb" }, picture(item)),
      element("span", { class: "caption" }, element("span", { class: "label" }, String(label)), element("span", {}, item.score.toFixed(2))),
    );
  }
}
