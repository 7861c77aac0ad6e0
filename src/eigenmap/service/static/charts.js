// Small charts, drawn by hand as SVG: length on a logarithmic axis, the current length marked.

const WIDTH = 300, HEIGHT = 150, LEFT = 26, RIGHT = 10, TOP = 14, BOTTOM = 18;

export function svg(tag, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

const place = (dim, most) => LEFT + (Math.log2(dim) / Math.log2(Math.max(most, 2))) * (WIDTH - LEFT - RIGHT);
const height = (value, low, high) => HEIGHT - BOTTOM - ((value - low) / (high - low || 1)) * (HEIGHT - TOP - BOTTOM);
const path = (points) => "M" + points.map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`).join("L");

export function powers(most) {
  const found = [];
  for (let dim = 1; dim < most; dim *= 2) found.push(dim);
  if (found.length > 1 && most / found.at(-1) < 1.5) found.pop();
  return [...found, most];
}

// The value between two measured lengths, along the logarithmic axis.
export function between(dims, values, dim) {
  const right = dims.findIndex((each) => each >= dim);
  if (right <= 0) return values[Math.max(right, 0)];
  const share = Math.log(dim / dims[right - 1]) / Math.log(dims[right] / dims[right - 1]);
  return values[right - 1] + share * (values[right] - values[right - 1]);
}

function frame(label, most, low, high) {
  const drawing = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label });
  for (const value of [low, high]) {
    const y = height(value, low, high);
    drawing.append(svg("line", { class: "axis", x1: LEFT, x2: WIDTH - RIGHT, y1: y, y2: y }));
    drawing.append(text(LEFT - 5, y + 4, trim(value), "end"));
  }
  const ticks = powers(most);
  const step = ticks.length > 8 ? 2 : 1;
  ticks.forEach((dim, i) => {
    if ((ticks.length - 1 - i) % step === 0) drawing.append(text(place(dim, most), HEIGHT - 3, dim, "middle"));
  });
  return drawing;
}

const trim = (value) => value.toFixed(2).replace(/^(-?)0\./, "$1.").replace(/^1\.00$/, "1").replace(/^\.00$/, "0");

function text(x, y, content, anchor, kind = "") {
  const made = svg("text", { x, y, "text-anchor": anchor, class: kind });
  made.textContent = content;
  return made;
}

function mark(drawing, x, y, value, second) {
  drawing.append(svg("line", { class: second ? "mark2" : "mark", x1: x, x2: x, y1: TOP, y2: HEIGHT - BOTTOM }));
  drawing.append(svg("circle", { class: second ? "dot2" : "dot", cx: x, cy: y, r: 4 }));
  const end = x > WIDTH - 60;
  if (!second) drawing.append(text(end ? x - 7 : x + 7, Math.max(y - 6, 10), value.toFixed(3), end ? "end" : "start", "value"));
}

export function qualityChart(quality, most, dim, other) {
  const values = [...quality.ordered, ...quality.random];
  const low = Math.max(0, Math.floor(Math.min(...values) * 10) / 10), high = Math.min(1, Math.ceil(Math.max(...values) * 10) / 10);
  const drawing = frame(`mAP ${between(quality.dims, quality.ordered, dim).toFixed(3)} at ${dim} features`, most, low, high);
  const line = (series, kind) =>
    drawing.append(svg("path", { class: kind, d: path(quality.dims.map((each, i) => [place(each, most), height(series[i], low, high)])) }));
  line(quality.random, "rival");
  line(quality.ordered, "ours");
  const middle = quality.dims[Math.floor(quality.dims.length / 2)];
  drawing.append(text(place(middle, most) + 6, height(between(quality.dims, quality.random, middle), low, high) + 15, "random", "start", "rival-name"));
  if (other) {
    const series = other.random ? quality.random : quality.ordered;
    mark(drawing, place(other.dim, most), height(between(quality.dims, series, other.dim), low, high), 0, true);
  }
  const value = between(quality.dims, quality.ordered, dim);
  mark(drawing, place(dim, most), height(value, low, high), value, false);
  return drawing;
}

export function spectrumChart(eigenvalues, dim) {
  const most = eigenvalues.length, low = Math.min(0, ...eigenvalues), high = Math.max(1e-6, ...eigenvalues);
  const drawing = frame(`eigenvalue ${eigenvalues[dim - 1].toFixed(3)} of feature ${dim}`, most, low, high);
  const points = eigenvalues.map((mu, i) => [place(i + 1, most), height(mu, low, high)]);
  const base = height(0, low, high);
  const area = (some, kind) =>
    drawing.append(svg("path", { class: kind, d: `${path(some)}L${some.at(-1)[0]} ${base}L${some[0][0]} ${base}Z` }));
  area(points, "area");
  area(points.slice(0, dim), "kept");
  drawing.append(svg("path", { class: "ours", d: path(points) }));
  mark(drawing, points[dim - 1][0], points[dim - 1][1], eigenvalues[dim - 1], false);
  return drawing;
}

export function histogram(counts) {
  const most = Math.max(...counts), width = 100 / counts.length;
  const drawing = svg("svg", { viewBox: "0 0 100 24", preserveAspectRatio: "none", "aria-hidden": "true" });
  counts.forEach((count, i) => {
    const tall = (count / most) * 24;
    drawing.append(svg("rect", { class: "bar", x: i * width, width: width * 0.85, y: 24 - tall, height: tall }));
  });
  return drawing;
}
