// One picture at a time, as large as the screen allows, with buttons for the previous and next one.

import { element, imageUrl } from "./api.js";

const find = (id) => document.getElementById(id);

export class Enlarged {
  constructor(search) {
    this.items = [];
    this.at = 0;
    const dialog = find("enlarged");
    find("enlarged-before").addEventListener("click", () => this.turn(-1));
    find("enlarged-after").addEventListener("click", () => this.turn(1));
    find("enlarged-close").addEventListener("click", () => dialog.close());
    find("enlarged-search").addEventListener("click", () => { dialog.close(); search(this.items[this.at].key); });
    dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); }); // beside the picture
    dialog.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (by) this.turn(by);
      event.stopPropagation(); // the shortcuts of the page are disabled meanwhile
    });
  }

  // Items as the server describes them, or { id, source } for a picture that is not in the index.
  show(items, at = 0) {
    this.items = items;
    this.at = at;
    this.draw();
    if (!find("enlarged").open) find("enlarged").showModal();
  }

  turn(by) {
    this.at = Math.min(this.items.length - 1, Math.max(0, this.at + by));
    this.draw();
  }

  draw() {
    const item = this.items[this.at];
    find("enlarged-picture").replaceChildren(element("img", { src: item.source || imageUrl(item.key), alt: String(item.id) }));
    find("enlarged-name").textContent = String(item.id);
    find("enlarged-facts").textContent = Object.entries(item.metadata || {}).map(([name, value]) => `${name} ${value}`).join(" · ");
    find("enlarged-search").hidden = !item.key;
    find("enlarged-before").disabled = this.at === 0;
    find("enlarged-after").disabled = this.at === this.items.length - 1;
    for (const id of ["enlarged-before", "enlarged-after"]) find(id).hidden = this.items.length === 1;
  }
}
