// The page: what is chosen, what follows from it, and where it is shown.
import { around, drawCurves, drawHistogram, Scatter } from "./charts.js";
import { npz } from "./npz.js";
import { FLAG, grouped, number, percent, readPage } from "./page_data.js";
import { EpisodeTable, FLAGS } from "./table.js";
import { BINS, binsOf, measure, topCount, weigh } from "./weights.js";

const page = readPage(), { facts, episodes, rewards } = page;
const element = (id) => document.getElementById(id);
const BATCH = 256, UPDATES = [10_000, 100_000, 1_000_000];
const range = facts.returns.high - facts.returns.low;
const shown = range > 0 ? facts.returns : around(facts.returns.low, facts.returns.high); // on the axes
const bins = binsOf(episodes, shown);
const effect = (w) => measure(w, episodes, { bins, range, draws: BATCH * state.updates, labelCount: facts.labels.length });

// Two digits, from 10^power on; every slider position is a number that can be read and typed.
const decades = (power) => (position) => Number(`${10 + (position % 90)}e${power - 1 + Math.floor(position / 90)}`);
function thresholdAt(position) {
  const step = range / 200 || 1, digits = Math.min(20, Math.max(0, 1 - Math.floor(Math.log10(step))));
  return Number((facts.returns.low + (position + 1) * step).toFixed(digits)); // inside the range, so that both sides have some
}
const temperature = { setting: "temperature", label: "Temperature", last: 270, at: decades(-2), text: String };
const asPercent = (share) => `${Number((100 * share).toPrecision(2))}%`;
const fraction = { setting: "fraction", label: "Keep the best", last: 270, at: decades(-3), text: asPercent };
const threshold = { setting: "threshold", label: "Return above", last: 198, at: thresholdAt, text: number };
const WEIGHTINGS = {
  rw: { title: "RW", python: "ReturnWeighting", slider: temperature },
  aw: { title: "AW", python: "AdvantageWeighting", slider: temperature },
  top: { title: "Top-x%", python: "TopFraction", slider: fraction },
  half: { title: "Half", python: "Half", slider: threshold },
  uniform: { title: "Uniform", python: "Uniform" },
};
const state = {
  name: "rw",
  positions: { rw: 90, aw: 90, top: 180, half: 99 }, // of the slider
  split: facts.labels.length === 2 ? "0" : "return", // of Half: a label, or by return
  updates: UPDATES[1],
  weights: null,
  chosen: -1, // episode
};

const byLabel = () => state.name === "half" && state.split !== "return";

// The weighting that is chosen: its name and settings.
function choice() {
  const { slider } = WEIGHTINGS[state.name];
  if (byLabel()) return { name: "half", high: Number(state.split) };
  return slider ? { name: state.name, [slider.setting]: slider.at(state.positions[state.name]) } : { name: state.name };
}

// Where Top-x% cuts through episodes of one return, it is their order that decides.
function ties(w) {
  const { returns, flags } = episodes;
  const least = returns.reduce((low, value, i) => (w[i] > 0 ? Math.min(low, value) : low), Infinity);
  const isCut = returns.some((value, i) => value === least && w[i] === 0 && flags[i] & FLAG.usable);
  return isCut ? `; of those with return ${number(least)}, the earlier` : "";
}

function meaning(chosen, w) {
  if (w === null) return "Nothing to draw from on one side: Half needs transitions on both.";
  if (chosen.temperature && range === 0) return "All returns are the same: every episode counts alike, at any temperature.";
  const ratio = number(Math.exp(1 / (chosen.temperature ?? 1)));
  return {
    rw: () => `By return: the best episode counts ${ratio} times as much as the worst.`,
    aw: () => `By advantage over what the start predicts (${facts.baseline} baseline): the best counts ${ratio} times as much as the worst.`,
    top: () => `Equal weight on the ${grouped(topCount(episodes, chosen.fraction))} episodes of highest return, none on the others${ties(w)}.`,
    half: () => `Half of the steps from ${byLabel() ? `label ${facts.labels[chosen.high]}` : `returns above ${number(chosen.threshold)}`}, half from the rest.`,
    uniform: () => "Every step equally often: what offline RL does by default.",
  }[chosen.name]();
}

// ---- what is shown ----------------------------------------------------------------------------------------------
let uniform = null; // what uniform sampling does
function uniformEffect() {
  if (uniform?.updates !== state.updates) uniform = { ...effect(weigh(episodes, { name: "uniform" })), updates: state.updates };
  return uniform;
}
const dataBins = new Float64Array(BINS);
let whole = 0, dataMean = 0;
for (let i = 0; i < episodes.count; i++) {
  if (bins[i] < 0) continue;
  whole += episodes.stands[i];
  dataMean += episodes.stands[i] * episodes.returns[i];
  dataBins[bins[i]] += episodes.stands[i];
}
dataMean /= whole;
dataBins.forEach((count, bin) => (dataBins[bin] = count / whole));

// Name, value, what stands below the name.
const NUMBERS = [
  ["Effective episodes", (e) => number(e.effectiveEpisodes)],
  ["Effective steps", (e) => number(e.effectiveSteps)],
  ["Return of episodes drawn", (e) => number(e.weightedReturn), (e) => `95%: ${number(Math.max(e.weightedReturn - e.radius, facts.returns.low))} to ${number(Math.min(e.weightedReturn + e.radius, facts.returns.high))}`],
  ["Return behind a drawn step", (e) => number(e.stepWeightedReturn)],
  ...(facts.good ? [["Good steps among the first 30", (e) => percent(e.earlyShare), () => `good: ${facts.good}`]] : []),
  ["Distinct episodes seen", (e) => number(e.distinct)],
];

function make(tag, text = "", className = "") {
  const made = document.createElement(tag);
  made.textContent = text;
  if (className) made.className = className;
  return made;
}

const numberCells = NUMBERS.map(([name]) => {
  const row = make("div"), term = make("dt", name), cell = make("dd"), value = make("b"), below = make("small"), plain = make("small");
  term.append(below);
  cell.append(value, plain);
  row.append(term, cell);
  element("numbers").append(row);
  return { value, below, plain };
});

function showNumbers(e) {
  NUMBERS.forEach(([, text, below], k) => {
    numberCells[k].value.textContent = e ? text(e) : "–";
    numberCells[k].below.textContent = e && below ? below(e) : "";
    numberCells[k].plain.textContent = `uniform ${text(uniformEffect())}`;
  });
}

const SHOWN_LABELS = 8;
let labelCells = [];
function setUpLabels() {
  const plain = uniformEffect();
  const order = facts.labels.map((_, k) => k).sort((a, b) => plain.perLabel[b] - plain.perLabel[a]);
  if (!order.length) return;
  element("labels").append(make("h3", "Steps drawn by label (line: uniform)"));
  labelCells = order.slice(0, SHOWN_LABELS).map((k) => {
    const row = make("div", "", "share"), bar = make("span", "", "bar"), fill = make("i"), line = make("b"), share = make("span");
    const name = make("span", facts.labels[k]);
    name.title = facts.labels[k];
    line.style.left = `${100 * plain.perLabel[k]}%`;
    bar.append(fill, line);
    row.append(name, bar, share);
    element("labels").append(row);
    return { k, fill, share };
  });
  if (order.length > SHOWN_LABELS) element("labels").append(make("p", `and ${grouped(order.length - SHOWN_LABELS)} more`, "small"));
}

const table = new EpisodeTable(element("table"), page, chooseEpisode);
const scatter = (canvas, xs, xName) =>
  new Scatter(element(canvas), { xs, xName, episodes, ...facts.returns, total: episodes.drawable, choose: (i) => table.pick(i) });
const scatters = [scatter("by-length", episodes.lengths, "steps of an episode")];
if (episodes.start) scatters.push(scatter("by-start", episodes.start, "first principal component of the start"));
else element("by-start").hidden = true;
element("about-start").textContent = facts.start;

function isSeen(canvas) {
  const { top, bottom } = canvas.getBoundingClientRect();
  return bottom > 0 && top < innerHeight;
}

// While the slider moves, only those that are on the screen.
function drawPictures(e, everything) {
  const about = { mean: dataMean, weightedMean: e?.weightedReturn, count: facts.episodes };
  drawHistogram(element("histogram"), shown, dataBins, e?.perBin, about);
  for (const each of scatters) if (everything || isSeen(each.canvas)) each.draw(state.weights, state.chosen);
  if (everything && state.curve) showCurve(state.curve);
}

function compute() {
  const chosen = choice(), weights = (state.weights = weigh(episodes, chosen));
  return Object.assign(globalThis.explorer, { choice: chosen, weights, effect: weights && effect(weights) });
}

// What follows from the choice; what costs much and is not seen only with `everything`.
function update(everything = true) {
  const { choice: chosen, effect: e } = compute(), { slider } = WEIGHTINGS[chosen.name];
  element("setting").hidden = !slider || byLabel();
  element("split-box").hidden = chosen.name !== "half";
  if (slider) {
    element("setting-name").textContent = slider.label;
    element("slider").max = slider.last;
    element("slider").value = state.positions[chosen.name];
    element("value").textContent = byLabel() ? "" : slider.text(chosen[slider.setting]);
    element("slider").setAttribute("aria-valuetext", element("value").textContent);
  }
  element("meaning").textContent = meaning(chosen, state.weights);
  showNumbers(e);
  for (const { k, fill, share } of labelCells) {
    fill.style.width = `${100 * (e?.perLabel[k] ?? 0)}%`;
    share.textContent = e ? percent(e.perLabel[k]) : "–";
  }
  drawPictures(e, everything);
  const told = e ? `Episodes drawn have a mean return of ${number(e.weightedReturn)}; those in the dataset ${number(dataMean)}.` : "";
  for (const id of ["histogram", "by-length", "by-start"]) element(id).setAttribute("aria-label", told);
  table.update(state.weights, everything);
  showCode(chosen);
}

// On the next frame, however often it is asked for; everything when there is rest.
const coming = { asked: false, everything: false, rest: 0 };
function later(everything) {
  coming.everything ||= everything;
  if (coming.asked) return;
  coming.asked = true;
  requestAnimationFrame(() => {
    const all = coming.everything;
    coming.asked = coming.everything = false;
    update(all);
    clearTimeout(coming.rest);
    if (!all) coming.rest = setTimeout(later, 200, true);
  });
}

// ---- an episode -------------------------------------------------------------------------------------------------
const starts = new Float64Array(rewards ? episodes.count : 0);
for (let i = 1; i < starts.length; i++) starts[i] = starts[i - 1] + episodes.lengths[i - 1];

// What there is to draw of an episode, or { problem }: why there is nothing.
async function curveOf(i) {
  if (rewards) {
    const own = rewards.subarray(starts[i], starts[i] + episodes.lengths[i]);
    let sum = 0;
    return { steps: Uint32Array.from(own, (_, t) => t), rewards: own, returns: Float64Array.from(own, (r) => (sum += r)) };
  }
  if (!facts.served) return { problem: "Rewards are not part of this page: --serve reads them when asked." };
  try {
    return await (await fetch(`episode/${episodes.number[i]}`)).json();
  } catch {
    return { problem: "It cannot be read: the server does not answer. Start it again, and open the address that it prints." };
  }
}

async function chooseEpisode(i) {
  state.chosen = i;
  const flags = table.flagText(episodes.flags[i]), about = `return ${number(episodes.returns[i])}, ${grouped(episodes.lengths[i])} steps`;
  element("about-episode").textContent = `Reading episode ${grouped(episodes.number[i])} …`;
  const curve = await curveOf(i);
  if (state.chosen !== i) return; // another was chosen meanwhile
  state.curve = curve.problem ? null : curve;
  const told = `Episode ${grouped(episodes.number[i])}, ${about}${flags && `, ${flags}`}`;
  element("about-episode").textContent = curve.problem ? `${told}. ${curve.problem}` : told;
  for (const id of ["rewards", "sum"]) element(id).hidden = !state.curve;
  element("observations").hidden = !state.curve?.observations;
  later(true);
}

function showCurve({ steps, rewards: own, returns, observations }) {
  drawCurves(element("rewards"), steps, [own], { yName: "reward" });
  drawCurves(element("sum"), steps, [returns], { yName: "return so far", xName: observations ? "" : "step" });
  if (observations) drawCurves(element("observations"), steps, observations, { yName: `first ${observations.length} observed`, xName: "step" });
  const told = element("about-episode").textContent;
  for (const id of ["rewards", "sum", "observations"]) element(id).setAttribute("aria-label", told);
}

// ---- to take along ----------------------------------------------------------------------------------------------
function showCode(chosen) {
  const settings = [], words = [];
  for (const [key, value] of Object.entries(chosen)) {
    if (key === "name" || (key === "high" && facts.labels.length === 2)) continue; // two labels: Half knows
    const given = key === "high" ? facts.labels[value] : value;
    settings.push(`${key}=${JSON.stringify(given)}`);
    words.push(`--${key}=${/^[\w.+-]+$/.test(given) ? given : `'${given.replaceAll("'", `'\\''`)}'`}`);
  }
  if (chosen.name === "aw" && facts.baseline !== "linear") {
    settings.push(`baseline=${JSON.stringify(facts.baseline)}`);
    words.push(`--baseline=${facts.baseline}`);
  }
  const weights = `weights = uw.${WEIGHTINGS[chosen.name].python}(${settings.join(", ")})(ds)`;
  element("python").textContent = ["import upweight as uw", "", facts.code.python, weights, "sampler = uw.EpisodeSampler(ds, weights)"].join("\n");
  const command = [facts.code.command, `--weighting ${chosen.name}`, ...words, "-o weights.npz"];
  element("command").replaceChildren(...command.flatMap((word) => [make("span", word), " "]).slice(0, -1));
  element("download").disabled = facts.sampled || !state.weights;
}

async function copy(button) {
  const source = element(button.dataset.of);
  try {
    await navigator.clipboard.writeText(source.textContent);
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), 1500);
  } catch {
    getSelection().selectAllChildren(source); // no clipboard here: ready to be copied by hand
  }
}

function download() {
  const lengths = BigInt64Array.from(episodes.transitions, BigInt);
  const link = make("a");
  link.href = URL.createObjectURL(npz({ weights: state.weights, lengths, returns: episodes.returns }));
  link.download = "weights.npz";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

// ---- the beginning ----------------------------------------------------------------------------------------------
function option(value, text) {
  const made = make("option", text);
  made.value = value;
  return made;
}

function choose({ name, ...settings }) {
  const { slider } = WEIGHTINGS[name];
  state.name = name;
  document.querySelector(`#tabs input[value=${name}]`).checked = true;
  const wanted = slider && settings[slider.setting];
  if (wanted !== undefined) {
    const miss = (position) => Math.abs(slider.at(position) - wanted);
    for (let p = 0; p <= slider.last; p++) if (miss(p) < miss(state.positions[name])) state.positions[name] = p;
  }
  update();
}

function setUp() {
  const { suggestion } = facts;
  const counted = Object.keys(FLAGS).map((key) => [key, episodes.flags.reduce((sum, flags) => sum + (flags & FLAG[key] ? 1 : 0), 0)]);
  const { low, high } = facts.returns;
  const returns = low === high ? `return ${number(low)} in every episode` : `returns ${number(low)} to ${number(high)}`;
  const told = [`${grouped(facts.episodes)} episodes`, `${grouped(facts.steps)} steps`, returns];
  if (facts.cut_short) told.push(`${grouped(facts.cut_short)} cut short`);
  if (facts.labels.length) told.push(facts.labels.length > 4 ? `${grouped(facts.labels.length)} labels` : `labels ${facts.labels.join(", ")}`);
  element("facts").textContent = told.join(" · ");
  const { name } = suggestion.weighting;
  element("suggested").textContent = suggestion.headline;
  element("strength").textContent = `${suggestion.strength === "none" ? "no" : suggestion.strength} evidence`;
  element("strength").classList.add(suggestion.strength);
  const items = (shown) => suggestion.reasons.filter((reason) => reason.shown === shown).map(({ text }) => make("li", text));
  element("checks").replaceChildren(...items(true));
  element("reasons").replaceChildren(...items(false));
  element("reasons").parentElement.hidden = items(false).length === 0;
  element("use").addEventListener("click", () => choose(suggestion.weighting));
  for (const [name, { title }] of Object.entries(WEIGHTINGS)) {
    const label = make("label", title), input = make("input");
    Object.assign(input, { type: "radio", name: "weighting", value: name });
    input.addEventListener("change", () => choose({ name }));
    label.prepend(input);
    element("tabs").append(label);
  }
  element("slider").addEventListener("input", (event) => {
    state.positions[state.name] = Number(event.target.value);
    later(false);
  });
  const sides = facts.labels.length > 2 ? facts.labels.map((name, k) => [k, `label ${name}, and the rest`]) : [];
  if (facts.labels.length === 2) sides.push(["0", `labels ${facts.labels.join(" and ")}`]);
  element("split").append(...sides.map(([value, text]) => option(value, text)), option("return", "return"));
  element("split").value = state.split;
  element("split").addEventListener("change", (event) => ((state.split = event.target.value), update()));
  element("updates").append(...UPDATES.map((count) => option(count, grouped(count))));
  element("updates").value = state.updates;
  element("updates").addEventListener("change", (event) => ((state.updates = Number(event.target.value)), update()));
  const found = counted.filter(([, count]) => count).map(([key, count]) => option(key, `${FLAGS[key]} (${grouped(count)})`));
  element("flag").append(option("", `all ${grouped(episodes.count)}`), ...found);
  for (const button of document.querySelectorAll(".copy")) button.addEventListener("click", () => copy(button));
  element("download").addEventListener("click", download);
  setUpLabels();
  showNotes();
  new ResizeObserver(() => later(true)).observe(document.body);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => later(true));
  choose(name === "uniform" ? { name: "rw" } : suggestion.weighting);
  table.pick(table.order[0]);
}

function showNotes() {
  const kept = grouped(episodes.count), all = grouped(facts.episodes);
  if (facts.sampled) {
    element("sampled").hidden = false;
    element("sampled").textContent = `The page holds ${kept} of ${all} episodes: the best ones, and a random part of the others, each of which stands for several. Numbers are estimates; the code below gives exact weights.`;
  }
  element("about-download").textContent = facts.sampled
    ? "Not of a sample: take the Python lines or the command."
    : 'For your own loop; uw.load_weights("weights.npz", ds) reads it back.';
  const notes = [...facts.notes, `Made by upweight ${facts.version} from ${facts.source}.`];
  element("notes").append(...notes.map((note) => make("li", note)));
}

globalThis.explorer = { page, compute, update }; // for the console: explorer.weights, explorer.effect
setUp();
