// What Python put into the page: facts, and columns with a number per episode.

const ARRAYS = { f8: Float64Array, f4: Float32Array, u4: Uint32Array, u1: Uint8Array };
export const FLAG = { cutShort: 1, duplicate: 2, outlier: 4, tie: 8, good: 16, usable: 32 };

export function decode({ type, base64 }) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return new ARRAYS[type](bytes.buffer);
}

// -> { facts, episodes: columns [n] and count, rewards [M] of all episodes one after the other, or null }
export function readPage() {
  const element = document.getElementById("page-data");
  const facts = JSON.parse(element.textContent);
  element.textContent = ""; // the columns below take its place in memory
  const episodes = { count: 0 };
  for (const [name, column] of Object.entries(facts.columns)) episodes[name] = decode(column);
  episodes.count = episodes.returns.length;
  episodes.usable = facts.usable; // of the whole dataset
  episodes.stands ??= new Float64Array(episodes.count).fill(1); // for how many episodes of the dataset each stands
  episodes.drawable = episodes.stands.reduce((sum, stands, i) => sum + (episodes.transitions[i] ? stands : 0), 0);
  const rewards = facts.rewards && decode(facts.rewards);
  return { facts, episodes, rewards };
}

// Four significant digits, thousands grouped.
export function number(value) {
  const size = Math.abs(value);
  const text = value === 0 || (size >= 1e-3 && size < 1e12)
    ? Number(value.toPrecision(Math.max(4, Math.ceil(Math.log10(size || 1))))).toLocaleString("en-GB", { maximumFractionDigits: 7 })
    : value.toExponential(2);
  return text.replaceAll("-", "−");
}

export const grouped = (value) => Math.round(value).toLocaleString("en-GB");
export const percent = (share) => `${(100 * share).toFixed(share >= 0.1 && share < 0.995 ? 0 : share < 0.01 ? 2 : 1)}%`;
