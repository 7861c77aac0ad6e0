// Requests to the service, repeated if it is busy.

export class ApiError extends Error {
  constructor(status, message) { super(message); this.status = status; }
}

const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

async function request(path, options = {}, attempt = 0) {
  const response = await fetch(path, options);
  if ((response.status === 429 || response.status === 503) && attempt < 4) {
    await sleep(1000 * Number(response.headers.get("Retry-After") || 1));
    return request(path, options, attempt + 1);
  }
  const content = await response.json();
  if (!response.ok) throw new ApiError(response.status, content.detail || response.statusText);
  return content;
}

export const get = (path, parameters = {}) => request(path + query(parameters));

export const post = (path, content) =>
  request(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(content) });

export const upload = (path, file, parameters = {}) =>
  request(path + query(parameters), { method: "POST", headers: { "Content-Type": "application/octet-stream" }, body: file });

export const imageUrl = (key) => `api/images/${key}`;

function query(parameters) {
  const words = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    for (const one of Array.isArray(value) ? value : [value]) if (one !== null && one !== undefined) words.append(name, one);
  }
  const text = words.toString();
  return text ? `?${text}` : "";
}

// A code is stored in the address of the page as 16-bit steps, so that a search by an upload survives a reload. It is
// preceded by the name of its model, since codes of two models cannot be compared.

export function packVector(vector, model) {
  const largest = Math.max(...vector.map(Math.abs)) || 1;
  const steps = Int16Array.from(vector, (value) => Math.round((value / largest) * 32767));
  const text = String.fromCharCode(...new Uint8Array(steps.buffer));
  const word = btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  return model ? `${model}.${word}` : word;
}

export function unpackVector(packed) {
  const word = packed.split(".").at(-1), model = packed.includes(".") ? packed.split(".")[0] : null;
  const text = atob(word.replaceAll("-", "+").replaceAll("_", "/"));
  const bytes = Uint8Array.from(text, (letter) => letter.charCodeAt(0));
  return { model, vector: Array.from(new Int16Array(bytes.buffer, 0, bytes.length >> 1), (step) => step / 32767) };
}

// Only the newest of several requests matters: while one is running, later ones replace each other.

export function newest(work) {
  let running = false, next = null;
  return async function ask(...given) {
    next = given;
    if (running) return;
    running = true;
    try {
      while (next) {
        const now = next;
        next = null;
        await work(...now);
      }
    } finally { running = false; }
  };
}

export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

// Title and text of an item that has no picture; without a title, the text is used as the title.
export function textOf(item) {
  const words = (name) => (item.metadata[name] === undefined || item.metadata[name] === null ? "" : String(item.metadata[name]).trim());
  const title = words("title"), text = words("text");
  return title ? { title, text } : { title: text || String(item.id), text: "" };
}

export const nameOf = (item, texts) => (texts ? textOf(item).title : String(item.id));

export function textCard(item) {
  const { title, text } = textOf(item);
  return element("span", { class: "words" }, element("span", { class: "title" }, title), ...(text ? [element("span", { class: "text" }, text)] : []));
}

// The picture of an item, or its name if it has none. Small pictures are sent with the items.
export function picture(item, large = false) {
  const name = String(item.id);
  if (item.picture === null) return element("span", { class: "no-picture" }, name);
  const image = element("img", { src: (!large && item.picture) || imageUrl(item.key), alt: name, loading: "lazy", decoding: "async", draggable: "false" });
  image.addEventListener("error", () => image.replaceWith(element("span", { class: "no-picture" }, name)), { once: true });
  return image;
}

export const number = (value) => value.toLocaleString("en");

export const count = (value, noun) => `${number(value)} ${noun}${value === 1 ? "" : "s"}`;

export function bytes(value) {
  const units = ["bytes", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) { value /= 1000; unit += 1; }
  return `${unit && value < 100 ? value.toPrecision(2) : Math.round(value)} ${unit || value !== 1 ? units[unit] : "byte"}`;
}
