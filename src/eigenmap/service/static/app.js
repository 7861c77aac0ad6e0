// The page: its state is kept in the address, and each view shows that state.

import { count, get } from "./api.js";
import { GalleryView } from "./gallery.js";
import { MapView } from "./map.js";
import { SearchView } from "./search.js";

const find = (id) => document.getElementById(id);
const VIEWS = ["search", "gallery", "map"];
const THEMES = { auto: "Auto", light: "Light", dark: "Dark" };

// The part of the address after #. `set` changes it in place, `go` adds a step for the back button.
class State {
  constructor(changed) {
    this.changed = changed;
    window.addEventListener("popstate", () => changed());
    window.addEventListener("hashchange", () => changed());
  }

  words() { return new URLSearchParams(window.location.hash.slice(1)); }

  get(name) { return this.words().get(name); }

  with(changes) {
    const words = this.words();
    for (const [name, value] of Object.entries(changes)) {
      if (value === null || value === undefined) words.delete(name);
      else words.set(name, value);
    }
    return `#${words}`;
  }

  set(changes) { window.history.replaceState(null, "", this.with(changes)); this.changed(); }

  go(changes) { window.history.pushState(null, "", this.with(changes)); window.scrollTo(0, 0); this.changed(); }
}

function applyTheme() {
  const chosen = localStorage.getItem("eigenmap-theme") || "auto";
  const dark = chosen === "dark" || (chosen === "auto" && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  find("theme").textContent = `◐ ${THEMES[chosen]}`;
  find("theme").setAttribute("aria-label", `Colours: ${THEMES[chosen]}`);
}

function prepareTheme(changed) {
  applyTheme();
  find("theme").addEventListener("click", () => {
    const names = Object.keys(THEMES), now = localStorage.getItem("eigenmap-theme") || "auto";
    localStorage.setItem("eigenmap-theme", names[(names.indexOf(now) + 1) % names.length]);
    applyTheme();
    changed();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { applyTheme(); changed(); });
}

function prepareTabs(state) {
  const tabs = VIEWS.map((view) => find(`tab-${view}`));
  tabs.forEach((tab, i) => {
    tab.addEventListener("click", () => state.go({ view: VIEWS[i] === "search" ? null : VIEWS[i] }));
    tab.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!by) return;
      const next = tabs[(i + by + tabs.length) % tabs.length];
      next.focus();
      next.click();
    });
  });
}

function prepareKeys(state, search) {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input[type=search], select")) return;
    const actions = {
      "[": () => search.step(-1),
      "]": () => search.step(1),
      c: () => state.set({ compare: { off: "length", length: "random", random: null }[search.compare] }),
      r: () => search.surprise(),
      1: () => state.go({ view: null }),
      2: () => state.go({ view: "gallery" }),
      3: () => state.go({ view: "map" }),
    };
    actions[event.key]?.();
  });
}

async function main() {
  const views = {};
  const changed = () => {
    const view = VIEWS.includes(state.get("view")) ? state.get("view") : "search";
    for (const each of VIEWS) {
      find(`view-${each}`).hidden = each !== view;
      find(`tab-${each}`).setAttribute("aria-selected", String(each === view));
      find(`tab-${each}`).tabIndex = each === view ? 0 : -1;
    }
    views[view]?.show();
  };
  const state = new State(changed);
  prepareTheme(changed);
  prepareTabs(state);
  const about = await get("api/about");
  document.title = `${about.name} · eigenmap`;
  find("about").textContent = `${about.name} · ${count(about.items, "item")} · ${count(about.n_components, "feature")}`;
  if (!state.get("dim")) window.history.replaceState(null, "", state.with({ dim: about.opening_dim }));
  document.body.classList.toggle("texts", about.texts);
  views.search = new SearchView(about, state);
  views.gallery = new GalleryView(about, state);
  views.map = new MapView(about, state);
  prepareKeys(state, views.search);
  changed();
  views.search.measureQuality();
}

main().catch((error) => {
  find("about").textContent = error.message;
  find("about").classList.add("problem");
});
