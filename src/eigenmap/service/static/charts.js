// Small SVG charts: length on a logarithmic axis, with the current length marked. One unit is one pixel.

const HEIGHT = 116, LEFT = 28, RIGHT = 12, TOP = 14, BOTTOM = 18, NARROWEST = 26;

export function svg(tag, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

const path = (points) => "M" + points.map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`).join("L");
const spread = (dim, most) => Math.log2(dim) / Math.log2(Math.max(most, 2));

export function powers(most) {
  const found = [];
  for (let dim = 1; dim < most; dim *= 2) found.push(dim);
  if (found.length > 1 && most / found.at(-1) < 1.5) found.pop();
  return [...found, most];
}

// The value interpolated between two measured lengths, along the logarithmic axis.
export function between(dims, values, dim) {
  const right = dims.findIndex((each) => each >= dim);
  if (right <= 0) return values[Math.max(right, 0)];
  const share = Math.log(dim / dims[right - 1]) / Math.log(dims[right] / dims[right - 1]);
  return values[right - 1] + share * (values[right] - values[right - 1]);
}

const trim = (value) => value.toFixed(2).replace(/^(-?)0\./, "$1.").replace(/^1\.00$/, "1").replace(/^\.00$/, "0");

function text(x, y, content, anchor, kind = "") {
  const made = svg("text", { x, y, "text-anchor": anchor, class: kind });
  made.textContent = content;
  return made;
}

class Chart {
  constructor(label, width, most, low, high) {
    Object.assign(this, { width, most, low, high });
    this.drawing = svg("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": label });
    for (const value of [low, high]) {
      const y = this.y(value);
      this.drawing.append(svg("line", { class: "axis", x1: LEFT, x2: width - RIGHT, y1: y, y2: y }));
      this.drawing.append(text(LEFT - 5, y + 4, trim(value), "end"));
    }
    const ticks = powers(most);
    const step = Math.max(1, Math.ceil((NARROWEST * ticks.length) / (width - LEFT - RIGHT)));
    ticks.forEach((dim, i) => {
      if ((ticks.length - 1 - i) % step === 0) this.drawing.append(text(this.x(dim), HEIGHT - 3, dim, "middle"));
    });
  }

  x(dim) { return LEFT + spread(dim, this.most) * (this.width - LEFT - RIGHT); }

  y(value) { return HEIGHT - BOTTOM - ((value - this.low) / (this.high - this.low || 1)) * (HEIGHT - TOP - BOTTOM); }

  line(dims, values, kind) {
    this.drawing.append(svg("path", { class: kind, d: path(dims.map((dim, i) => [this.x(dim), this.y(values[i])])) }));
  }

  mark(dim, value, second = false) {
    const x = this.x(dim), y = this.y(value), end = x > this.width - 60;
    this.drawing.append(svg("line", { class: second ? "mark2" : "mark", x1: x, x2: x, y1: TOP, y2: HEIGHT - BOTTOM }));
    this.drawing.append(svg("circle", { class: second ? "dot2" : "dot", cx: x, cy: y, r: 4 }));
    if (!second) this.drawing.append(text(end ? x - 7 : x + 7, Math.max(y - 6, 10), value.toFixed(3), end ? "end" : "start", "value"));
  }
}

export function qualityChart(quality, most, dim, other, width) {
  const values = [...quality.ordered, ...quality.random];
  const high = Math.max(0.1, Math.min(1, Math.ceil(Math.max(...values) * 10) / 10));
  const low = Math.max(0, Math.min(Math.floor(Math.min(...values) * 10) / 10, high - 0.1)); // equal values get an axis too
  const value = between(quality.dims, quality.ordered, dim);
  const chart = new Chart(`mAP ${value.toFixed(3)} at ${dim} features`, width, most, low, high);
  chart.line(quality.dims, quality.random, "rival");
  chart.line(quality.dims, quality.ordered, "ours");
  const middle = quality.dims[Math.floor(quality.dims.length / 2)];
  const beside = chart.y(between(quality.dims, quality.random, middle)) + 15;
  chart.drawing.append(text(chart.x(middle) + 6, beside, "random", "start", "rival-name"));
  if (other) chart.mark(other.dim, between(quality.dims, other.random ? quality.random : quality.ordered, other.dim), true);
  chart.mark(dim, value);
  return chart.drawing;
}

export function spectrumChart(eigenvalues, dim, width) {
  const most = eigenvalues.length, low = Math.min(0, ...eigenvalues), high = Math.max(1e-6, ...eigenvalues);
  const chart = new Chart(`eigenvalue ${eigenvalues[dim - 1].toFixed(3)} of feature ${dim}`, width, most, low, high);
  const points = eigenvalues.map((mu, i) => [chart.x(i + 1), chart.y(mu)]), base = chart.y(0);
  const area = (some, kind) =>
    chart.drawing.append(svg("path", { class: kind, d: `${path(some)}L${some.at(-1)[0]} ${base}L${some[0][0]} ${base}Z` }));
  area(points, "area");
  area(points.slice(0, dim), "kept");
  chart.drawing.append(svg("path", { class: "ours", d: path(points) }));
  chart.mark(dim, eigenvalues[dim - 1]);
  return chart.drawing;
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
