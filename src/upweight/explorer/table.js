// The episodes as a table that can be sorted and leafed through.
import { FLAG, grouped, number } from "./page_data.js";

const PAGE = 12;
export const FLAGS = { cutShort: "cut short", duplicate: "duplicate", outlier: "outlier", tie: "tie" };

export class EpisodeTable {
  // `choose(row)` is called with the row of an episode; `view.weights` is what the weights are now
  constructor(root, { facts, episodes }, choose) {
    Object.assign(this, { root, facts, episodes, choose, page: 0, chosen: -1, weights: null, flag: 0 });
    const of = (name) => (i) => episodes[name][i];
    this.columns = [
      { name: "Episode", value: of("number"), text: grouped },
      { name: "Return", value: of("returns"), text: number },
      { name: "× uniform", value: (i) => this.weights?.[i] ?? 0, text: (v) => number(v * episodes.drawable) },
      { name: "Length", value: of("lengths"), text: grouped },
      { name: "Advantage", value: of("advantages"), text: (v, i) => (episodes.flags[i] & FLAG.usable ? number(v) : "–") },
      ...(facts.labels.length ? [{ name: "Label", value: of("labels"), text: (v) => facts.labels[v], isText: true }] : []),
      { name: "Flags", value: (i) => episodes.flags[i] & 15, text: (v) => this.flagText(v), isText: true },
    ];
    this.sorted = { column: this.columns[2], down: true }; // by weight
    this.head();
    root.querySelector("#flag").addEventListener("change", (event) => {
      this.flag = FLAG[event.target.value] ?? 0;
      this.page = 0;
      this.sort();
    });
    for (const [id, by] of [["#previous", -1], ["#next", 1]]) {
      root.querySelector(id).addEventListener("click", () => this.show(this.page + by));
    }
  }

  flagText(flags) {
    return Object.keys(FLAGS).filter((key) => flags & FLAG[key]).map((key) => FLAGS[key]).join(", ");
  }

  head() {
    const cells = this.columns.map((column) => {
      const cell = document.createElement("th"), button = document.createElement("button");
      cell.scope = "col";
      cell.className = column.isText ? "text" : "";
      button.textContent = column.name;
      button.addEventListener("click", () => {
        const down = this.sorted.column === column ? !this.sorted.down : column.name !== "Episode";
        Object.assign(this, { sorted: { column, down }, page: 0 });
        this.sort();
      });
      cell.append(button);
      column.cell = cell;
      return cell;
    });
    this.root.querySelector("thead tr").replaceChildren(...cells);
  }

  sort() {
    const { column: { value }, down } = this.sorted, { flags, count } = this.episodes;
    const keys = Float64Array.from({ length: count }, (_, i) => value(i));
    this.order = [];
    for (let i = 0; i < count; i++) if (!this.flag || flags[i] & this.flag) this.order.push(i);
    this.order.sort(down ? (a, b) => keys[b] - keys[a] : (a, b) => keys[a] - keys[b]);
    for (const column of this.columns) {
      const state = column === this.sorted.column ? (down ? "descending" : "ascending") : "none";
      column.cell.setAttribute("aria-sort", state);
    }
    this.show(this.page);
  }

  // New weights: rows that are seen change at once, their order when the slider rests.
  update(weights, rests) {
    this.weights = weights;
    if (!this.order || (rests && this.sorted.column === this.columns[2])) this.sort();
    else this.show(this.page);
  }

  show(page) {
    const last = Math.max(0, Math.ceil(this.order.length / PAGE) - 1);
    this.page = Math.min(Math.max(page, 0), last);
    const rows = this.order.slice(PAGE * this.page, PAGE * (this.page + 1));
    this.root.querySelector("tbody").replaceChildren(...rows.map((i) => this.row(i)));
    const first = PAGE * this.page;
    this.root.querySelector("#place").textContent = rows.length
      ? `${grouped(first + 1)} to ${grouped(first + rows.length)} of ${grouped(this.order.length)}`
      : "none";
    this.root.querySelector("#previous").disabled = this.page === 0;
    this.root.querySelector("#next").disabled = this.page === last;
  }

  row(i) {
    const row = document.createElement("tr");
    row.className = i === this.chosen ? "chosen" : "";
    row.addEventListener("click", () => this.pick(i));
    for (const column of this.columns) {
      const cell = document.createElement("td");
      const text = column.text(column.value(i), i);
      cell.className = column.isText ? "text" : "";
      if (column.name === "Episode") {
        const button = document.createElement("button");
        button.textContent = text;
        button.setAttribute("aria-label", `Show episode ${text}`);
        if (i === this.chosen) button.setAttribute("aria-current", "true");
        cell.append(button);
      } else cell.textContent = text;
      row.append(cell);
    }
    return row;
  }

  pick(i) {
    const hadFocus = this.root.querySelector("tbody").contains(document.activeElement);
    this.chosen = i;
    this.show(this.page);
    if (hadFocus) this.root.querySelector("tr.chosen button")?.focus();
    this.choose(i);
  }
}
