// Vectors from a user's file: the first row of an .npy file, or numbers in a text.

const SIZES = { f2: 2, f4: 4, f8: 8, i1: 1, i2: 2, i4: 4, u1: 1, u2: 2, u4: 4 };

export async function readVector(file) {
  const content = new Uint8Array(await file.slice(0, 2 ** 22).arrayBuffer());
  return content[0] === 0x93 ? fromNpy(content) : fromText(new TextDecoder().decode(content));
}

// Magic, version, length of the header, the header as a Python dictionary, the numbers.
function fromNpy(content) {
  const view = new DataView(content.buffer);
  const long = content[6] > 1, size = long ? view.getUint32(8, true) : view.getUint16(8, true);
  const first = (long ? 12 : 10) + size;
  const header = new TextDecoder().decode(content.slice(long ? 12 : 10, first));
  const [, order, kind] = /'descr':\s*'([<|>=])(\w\d)'/.exec(header) || [];
  const shape = (/'shape':\s*\(([\d,\s]*)\)/.exec(header)?.[1] || "").split(",").filter((part) => part.trim()).map(Number);
  if (!SIZES[kind] || !shape.length || /'fortran_order':\s*True/.test(header)) throw new Error("This .npy file contains neither a vector nor rows of numbers");
  const length = shape.at(-1);
  if (first + length * SIZES[kind] > content.length) throw new Error("This .npy file is truncated, or its first row is too long");
  return Array.from({ length }, (_, i) => numberAt(view, first + i * SIZES[kind], kind, order !== ">"));
}

function numberAt(view, place, kind, little) {
  const bits = 8 * SIZES[kind];
  if (kind === "f2") return half(view.getUint16(place, little));
  const name = { f: "Float", i: "Int", u: "Uint" }[kind[0]];
  return view[`get${name}${bits}`](place, little);
}

function half(word) {
  const sign = word & 0x8000 ? -1 : 1, exponent = (word >> 10) & 31, rest = word & 1023;
  return sign * (exponent ? (1 + rest / 1024) * 2 ** (exponent - 15) : (rest / 1024) * 2 ** -14);
}

function fromText(text) {
  const line = text.trim().split(/\n\s*\n|\]\s*,\s*\[/)[0];
  const words = line.replaceAll(/[[\](){};,]/g, " ").trim().split(/\s+/);
  const numbers = words.map(Number);
  if (!words[0] || numbers.some((value) => !Number.isFinite(value))) throw new Error("This is not a vector: give an .npy file, or numbers as text");
  return numbers;
}
