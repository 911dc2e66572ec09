// Weights of episodes and what they do; the formulas of upweight.weightings and upweight.data.statistics.
import { FLAG } from "./page_data.js";

const FIRST_STEPS = 30;
export const BINS = 60;

// Each fills w [n] with weights up to a factor; what it leaves at 0 cannot be drawn.
const RULES = {
  rw: (w, episodes, { temperature }) => boltzmann(w, episodes, episodes.rw, temperature),
  aw: (w, episodes, { temperature }) => boltzmann(w, episodes, episodes.aw, temperature),
  top: (w, episodes, { fraction }) => {
    const order = (episodes.bestFirst ??= bestFirst(episodes));
    let left = topCount(episodes, fraction);
    for (let place = 0; place < order.length && left > 0; place++) {
      w[order[place]] = 1;
      left -= episodes.stands[order[place]];
    }
  },
  half: (w, episodes, { threshold, high }) => {
    const { returns, labels, flags, transitions, stands, count } = episodes;
    const isHigh = (i) => (high === undefined ? returns[i] > threshold : labels[i] === high);
    const drawn = (i) => (high === undefined ? flags[i] & FLAG.usable : transitions[i] > 0);
    const sizes = [0, 0];
    for (let i = 0; i < count; i++) if (drawn(i)) sizes[+isHigh(i)] += stands[i] * transitions[i];
    if (!sizes[0] || !sizes[1]) return;
    for (let i = 0; i < count; i++) if (drawn(i)) w[i] = 0.5 / sizes[+isHigh(i)];
  },
  uniform: (w, { transitions, count }) => {
    for (let i = 0; i < count; i++) w[i] = transitions[i] > 0 ? 1 : 0;
  },
};

// exp((x - 1) / alpha), with x min-max scaled already.
function boltzmann(w, { flags, count }, scaled, temperature) {
  for (let i = 0; i < count; i++) if (flags[i] & FLAG.usable) w[i] = Math.exp((scaled[i] - 1) / temperature);
}

// Usable episodes by falling return; among equals the earlier one.
function bestFirst({ returns, flags, count }) {
  const order = [];
  for (let i = 0; i < count; i++) if (flags[i] & FLAG.usable) order.push(i);
  return order.sort((a, b) => returns[b] - returns[a]);
}

export const topCount = (episodes, fraction) => Math.max(1, Math.floor(fraction * episodes.usable + 1e-9));

// w [n], summing to 1 over the dataset; null where a weighting has nothing to draw from.
export function weigh(episodes, choice) {
  const w = new Float64Array(episodes.count);
  RULES[choice.name](w, episodes, choice);
  let total = 0;
  for (let i = 0; i < w.length; i++) total += episodes.stands[i] * w[i];
  if (!(total > 0)) return null;
  for (let i = 0; i < w.length; i++) w[i] /= total;
  return w;
}

// Which bin of the histogram an episode's return is in; those that were cut short are in none.
export function binsOf({ returns, flags, count }, { low, high }) {
  const bins = new Int16Array(count);
  const width = high / BINS - low / BINS || 1;
  for (let i = 0; i < count; i++) {
    bins[i] = flags[i] & FLAG.cutShort ? -1 : Math.min(BINS - 1, Math.floor((returns[i] - low) / width));
  }
  return bins;
}

// What a run would draw with weights w [n], in one pass; `draws` steps are drawn in the run.
export function measure(w, episodes, { bins, range, draws, labelCount }) {
  const { returns, transitions, stands, labels, flags, count } = episodes;
  let squares = 0, mass = 0, stepSquares = 0, whole = 0, wholeReturn = 0, wholeMass = 0, stepReturn = 0;
  let early = 0, earlyGood = 0;
  for (let i = 0; i < count; i++) {
    if (w[i] === 0) continue;
    const weight = stands[i] * w[i], steps = weight * transitions[i];
    squares += weight * w[i];
    mass += steps;
    stepSquares += steps * w[i];
    const first = weight * Math.min(transitions[i], FIRST_STEPS);
    early += first;
    if (flags[i] & FLAG.good) earlyGood += first;
    if (flags[i] & FLAG.cutShort) continue;
    whole += weight;
    wholeReturn += weight * returns[i];
    wholeMass += steps;
    stepReturn += steps * returns[i];
  }
  const perBin = new Float64Array(BINS), perLabel = new Float64Array(labelCount);
  let distinct = 0;
  for (let i = 0; i < count; i++) {
    if (w[i] === 0) continue;
    const share = (w[i] * transitions[i]) / mass; // of the steps drawn
    if (bins[i] >= 0) perBin[bins[i]] += stands[i] * share;
    if (labelCount) perLabel[labels[i]] += stands[i] * share;
    distinct += stands[i] * (share < 1 ? -Math.expm1(draws * Math.log1p(-share)) : 1);
  }
  const effectiveEpisodes = 1 / squares;
  return {
    effectiveEpisodes,
    effectiveSteps: (mass * mass) / stepSquares,
    weightedReturn: wholeReturn / whole,
    stepWeightedReturn: stepReturn / wholeMass,
    radius: range * Math.sqrt(Math.log(2 / (1 - 0.95)) / (2 * effectiveEpisodes)), // Hoeffding, 95%
    earlyShare: earlyGood / early,
    distinct,
    perBin,
    perLabel,
  };
}
