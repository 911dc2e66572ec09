// Drawing on canvases: axes, histogram, scatter, curves. Colours are those of the page's style.
import { BINS } from "./weights.js";
import { FLAG, number } from "./page_data.js";

const FONT = '12px system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif';
const HEAVY = 1.5, MOST_CIRCLES = 600, LARGEST = 13; // sizes in pixels; weights in those of uniform sampling

export function colours() {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(`--${name}`).trim();
  return { ink: of("ink"), soft: of("soft"), rule: of("rule"), data: of("data"), drawn: of("drawn") };
}

// A cleared canvas at the screen's resolution, and the box that the axes leave.
function frame(canvas, { left = 68, right = 12, top = 10, bottom = 42 } = {}) {
  const ratio = devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
  const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== w || canvas.height !== h) [canvas.width, canvas.height] = [w, h];
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  context.font = FONT;
  return { context, ratio, colour: colours(), left, top, right: width - right, bottom: height - bottom };
}

// Round numbers between low and high.
export function ticks(low, high, most) {
  const rough = (high - low) / Math.max(1, most), power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough) ?? 10 * power;
  const found = [];
  for (let k = Math.ceil(low / step); k * step <= high * (1 + 1e-12) && found.length < 50; k++) found.push(k * step);
  return found;
}

// A little more than the values from low to high; of a single one, as much again.
export function around(low, high) {
  const margin = high > low ? 0.03 * (high - low) : Math.abs(low) / 2 || 1;
  return { low: low - margin, high: high + margin };
}

function linear(low, high, from, to, most) {
  const span = high - low || 1;
  const scale = (value) => from + ((value - low) / span) * (to - from);
  return Object.assign(scale, { ticks: ticks(low, high, most), text: tickText });
}

// Shares from `finest` on by their logarithm, smaller ones in proportion down to 0.
function shares(finest, from, to) {
  const decades = -Math.log10(finest), height = decades + 1;
  const scale = (share) => {
    const up = share < finest ? share / finest : 1 + Math.log10(share / finest);
    return from + (up / height) * (to - from);
  };
  const marks = Array.from({ length: Math.round(decades) + 1 }, (_, k) => 10 ** -k).reverse();
  return Object.assign(scale, { ticks: [0, ...marks], text: (share) => `${Number((100 * share).toPrecision(1))}%` });
}

function tickText(value) {
  const size = Math.abs(value);
  const isPlain = value === 0 || (size >= 1e-3 && size < 1e6), short = Number(value.toPrecision(6));
  const text = isPlain ? short.toLocaleString("en-GB", { maximumFractionDigits: 6 }) : short.toExponential();
  return text.replaceAll("-", "−");
}

function axes(view, x, y, xName, yName) {
  const { context, colour, left, right, top, bottom } = view;
  context.lineWidth = 1;
  context.strokeStyle = colour.rule;
  context.fillStyle = colour.soft;
  context.textBaseline = "middle";
  context.textAlign = "right";
  context.beginPath();
  for (const tick of y.ticks) {
    const height = Math.round(y(tick)) + 0.5;
    context.moveTo(left, height);
    context.lineTo(right, height);
    context.fillText(y.text(tick), left - 8, height);
  }
  context.stroke();
  context.textBaseline = "top";
  context.textAlign = "center";
  for (const tick of x.ticks) {
    const place = Math.min(Math.max(x(tick), left), right), half = context.measureText(x.text(tick)).width / 2;
    context.fillText(x.text(tick), Math.min(place, right + 10 - half), bottom + 7);
  }
  context.fillStyle = colour.ink;
  context.textBaseline = "bottom";
  context.fillText(xName, (left + right) / 2, bottom + 41);
  context.save();
  context.translate(2, (top + bottom) / 2);
  context.rotate(-Math.PI / 2);
  context.textBaseline = "top";
  context.fillText(yName, 0, 0);
  context.restore();
}

const xTicks = (view) => Math.max(2, Math.floor((view.right - view.left) / 55));

// Episodes per bin in grey, steps drawn per bin over them; dashed: the mean return of either.
export function drawHistogram(canvas, { low, high }, uniform, drawn, { mean, weightedMean, count }) {
  const view = frame(canvas, { top: 38 }), { context, colour, left, right, bottom, top } = view;
  const x = linear(low, high, left, right, xTicks(view));
  const finest = 10 ** Math.max(-5, Math.min(-2, Math.floor(Math.log10(1 / count)))); // about the share of one episode
  const y = shares(finest, bottom, top);
  axes(view, x, y, "return of an episode", "share of episodes, of steps (logarithmic)");
  const edge = (bin) => left + (bin / BINS) * (right - left);
  context.fillStyle = colour.data;
  for (let bin = 0; bin < BINS; bin++) {
    if (uniform[bin] > 0) context.fillRect(edge(bin), y(uniform[bin]), edge(bin + 1) - edge(bin) - 1, bottom - y(uniform[bin]));
  }
  if (drawn) {
    context.beginPath();
    context.moveTo(left, bottom);
    for (let bin = 0; bin < BINS; bin++) {
      context.lineTo(edge(bin), y(drawn[bin]));
      context.lineTo(edge(bin + 1), y(drawn[bin]));
    }
    context.lineTo(right, bottom);
    context.fillStyle = context.strokeStyle = colour.drawn;
    context.globalAlpha = 0.18;
    context.fill();
    context.globalAlpha = 1;
    context.lineWidth = 2;
    context.lineJoin = "round";
    context.stroke();
  }
  const marks = [[mean, "mean of the data", colour.soft, top - 19]];
  if (drawn) marks.push([weightedMean, "mean drawn", colour.drawn, top - 4]);
  for (const [value, text, ink, height] of marks) mark(view, x(value), `${text} ${number(value)}`, ink, height);
}

function mark({ context, left, right, bottom }, place, text, ink, height) {
  context.strokeStyle = context.fillStyle = ink;
  context.lineWidth = 1.25;
  context.setLineDash([4, 3]);
  context.beginPath();
  context.moveTo(place, height - 8);
  context.lineTo(place, bottom);
  context.stroke();
  context.setLineDash([]);
  const fitsRight = place + 6 + context.measureText(text).width < right || place < (left + right) / 2;
  context.textAlign = fitsRight ? "left" : "right";
  context.textBaseline = "middle";
  context.fillText(text, place + (fitsRight ? 6 : -6), height - 6);
}

// #rrggbb as a pixel of an image.
const packed = (colour) => [1, 3, 5].reduce((pixel, at, k) => pixel | (parseInt(colour.slice(at, at + 2), 16) << (8 * k)), 0xff000000) >>> 0;

// Points of all episodes: grey where next to nothing is drawn, else coloured and sized by weight.
export class Scatter {
  constructor(canvas, { xs, xName, episodes, low, high, total, choose }) {
    Object.assign(this, { canvas, xs, xName, episodes, total, upward: around(low, high) });
    let [least, most] = [Infinity, -Infinity];
    for (const value of xs) [least, most] = [Math.min(least, value), Math.max(most, value)];
    this.across = around(least, most);
    canvas.addEventListener("click", (event) => {
      const found = this.nearest(event.offsetX, event.offsetY);
      if (found >= 0) choose(found);
    });
  }

  draw(weights, chosen) {
    const view = (this.view = frame(this.canvas)), { context, ratio, colour } = view;
    const { across, upward } = this;
    const x = linear(across.low, across.high, view.left, view.right, xTicks(view));
    const y = linear(upward.low, upward.high, view.bottom, view.top, 5);
    axes(view, x, y, this.xName, "return");
    this.scales = { x, y };
    this.dots(view, weights);
    const { returns, flags } = this.episodes;
    const circle = (i, radius) => {
      context.moveTo(x(this.xs[i]) + radius, y(returns[i]));
      context.arc(x(this.xs[i]), y(returns[i]), radius, 0, 7);
    };
    context.fillStyle = context.strokeStyle = colour.drawn;
    context.beginPath();
    for (const i of this.heaviest(weights)) circle(i, Math.min(LARGEST, 1.2 * Math.sqrt(weights[i] * this.total)));
    context.globalAlpha = 0.25;
    context.fill();
    context.globalAlpha = 1;
    context.stroke();
    if (chosen < 0 || flags[chosen] & FLAG.cutShort) return;
    context.strokeStyle = colour.ink;
    context.lineWidth = 2;
    context.beginPath();
    circle(chosen, 7);
    context.stroke();
  }

  // A dot per episode, put down pixel by pixel: a hundred thousand take a few milliseconds.
  dots({ context, ratio, colour }, weights) {
    const { returns, flags, count } = this.episodes, { width, height } = this.canvas, { x, y } = this.scales;
    const dot = Math.max(1, Math.round((count > 10_000 ? 2 : 3) * ratio));
    if (this.layer?.canvas.width !== width || this.layer.canvas.height !== height) {
      this.layer = new OffscreenCanvas(width, height).getContext("2d");
      this.image = this.layer.createImageData(width, height);
      this.corners = new Int32Array(count); // first pixel of each dot; -1: none
      for (let i = 0; i < count; i++) {
        const left = Math.round(x(this.xs[i]) * ratio - dot / 2), top = Math.round(y(returns[i]) * ratio - dot / 2);
        this.corners[i] = flags[i] & FLAG.cutShort ? -1 : top * width + left;
      }
    }
    const pixels = new Uint32Array(this.image.data.buffer).fill(0), least = 0.1 / this.total;
    for (const isDrawn of [false, true]) { // those that are drawn lie above the others
      const paint = packed(isDrawn ? colour.drawn : colour.data);
      for (let i = 0; i < count; i++) {
        const corner = this.corners[i];
        if (corner < 0 || (weights !== null && weights[i] > least) !== isDrawn) continue;
        for (let row = 0; row < dot; row++) for (let k = 0; k < dot; k++) pixels[corner + row * width + k] = paint;
      }
    }
    this.layer.putImageData(this.image, 0, 0);
    context.drawImage(this.layer.canvas, 0, 0, width / ratio, height / ratio);
  }

  // Episodes that deserve a circle: some hundred at most.
  heaviest(weights) {
    const { flags, count } = this.episodes;
    let cut = HEAVY / this.total, heavy = [];
    for (let i = 0; weights && i < count; i++) if (weights[i] > cut && !(flags[i] & FLAG.cutShort)) heavy.push(i);
    while (heavy.length > MOST_CIRCLES) {
      cut *= 1.25;
      const fewer = heavy.filter((i) => weights[i] > cut);
      heavy = fewer.length ? fewer : heavy.slice(0, MOST_CIRCLES);
    }
    return heavy;
  }

  // The episode within 20 pixels of a place, or -1.
  nearest(left, top) {
    const { x, y } = this.scales, { returns, flags, count } = this.episodes;
    let best = 400, found = -1;
    for (let i = 0; i < count; i++) {
      if (flags[i] & FLAG.cutShort) continue;
      const distance = (x(this.xs[i]) - left) ** 2 + (y(returns[i]) - top) ** 2;
      if (distance < best) [best, found] = [distance, i];
    }
    return found;
  }
}

// Lines over the steps of an episode: `lines` are arrays of values at `steps`.
export function drawCurves(canvas, steps, lines, { yName, xName = "" }) {
  const view = frame(canvas, { bottom: xName ? 42 : 24 }), { context, colour } = view;
  let [low, high] = [Infinity, -Infinity];
  for (const line of lines) for (const value of line) [low, high] = [Math.min(low, value), Math.max(high, value)];
  if (low === high) [low, high] = [low - 0.5, high + 0.5];
  const last = steps[steps.length - 1] || 1;
  const x = linear(0, last, view.left, view.right, xTicks(view));
  const y = linear(low, high, view.bottom, view.top, 4);
  axes(view, x, y, xName, yName);
  context.lineWidth = lines.length > 1 ? 1.25 : 1.75;
  context.lineJoin = "round";
  lines.forEach((line, which) => {
    context.strokeStyle = which % 2 ? colour.soft : colour.drawn;
    context.globalAlpha = 1 - 0.6 * (which / Math.max(1, lines.length));
    context.beginPath();
    if (line.length === 1) context.arc(x(steps[0]), y(line[0]), 2, 0, 7);
    for (let k = 0; k < line.length; k++) context.lineTo(x(steps[k]), y(line[k]));
    context.stroke();
  });
  context.globalAlpha = 1;
}
