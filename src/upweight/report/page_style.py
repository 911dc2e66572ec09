"""How the page of a report looks: light or dark as the reader's system is, and down to the width of a phone."""

CSS = """\
:root { color-scheme: light dark; --ink: #1b1e23; --soft: #5c636e; --paper: #ffffff; --rule: #d7dbe1; --band: #f3f5f8;
  --warn: #fff4d6; --warn-rule: #b77900; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e7e9ec; --soft: #a4abb6; --paper: #15181c; --rule: #363c45; --band: #1e2228; --warn: #33290f;
    --warn-rule: #e0a526; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 72rem; color: var(--ink); background: var(--paper);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0.5rem 0 1rem; overflow-wrap: anywhere; }
h2 { font-size: 1.25rem; margin: 2.5rem 0 0.75rem; border-bottom: 1px solid var(--rule); padding-bottom: 0.25rem; }
h3 { font-size: 1.05rem; margin: 1.75rem 0 0.5rem; }
p, li, figcaption { max-width: 48rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0.25rem 1rem; margin: 0; }
dt { color: var(--soft); }
dd { margin: 0; overflow-wrap: anywhere; }
.warning { background: var(--warn); border-left: 4px solid var(--warn-rule); padding: 0.6rem 1rem; margin: 1rem 0;
  max-width: 48rem; }
.note, figcaption { color: var(--soft); font-size: 0.9rem; }
.scroll { overflow-x: auto; max-width: 100%;  /* a shadow at the right edge as long as there is more to the right */
  background: linear-gradient(to left, var(--paper) 1rem, transparent) right / 2rem 100% no-repeat local,
    linear-gradient(to left, var(--rule), transparent) right / 0.8rem 100% no-repeat scroll; }
caption { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
table { border-collapse: collapse; font-size: 0.875rem; font-variant-numeric: tabular-nums; }
th, td { padding: 0.3rem 0.6rem; text-align: right; vertical-align: top; white-space: nowrap; }
th[scope="row"], th[scope="rowgroup"], thead th:first-child, .runs td, .runs th { text-align: left; }
th[scope="row"] { font-weight: 400; }
thead th { border-bottom: 2px solid var(--rule); }
tbody tr:nth-child(even) > * { background: var(--band); }
tr.group th { white-space: normal; padding-top: 0.8rem; border-bottom: 1px solid var(--rule); background: var(--paper); }
tfoot th, tfoot td { border-top: 2px solid var(--rule); }
.ours { display: block; }
.spread, .paper { color: var(--soft); font-size: 0.8rem; }
.paper { display: block; }
.star { font-weight: 700; line-height: 0; }
.runs .number { text-align: right; }
code { font: 0.85em ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; }
figure { margin: 1rem 0; }
.pictures { display: flex; flex-wrap: wrap; gap: 1rem; }
.pictures svg { width: 100%; height: auto; flex: 0 1 auto; }
summary { cursor: pointer; font-weight: 600; padding: 0.25rem 0; }
@media (max-width: 40rem) {
  body { padding: 0.75rem; font-size: 15px; }
  dl { grid-template-columns: 1fr; gap: 0; }
  dd { margin-bottom: 0.5rem; }
  th, td { padding: 0.25rem 0.4rem; }
  th[scope="row"], thead th:first-child { position: sticky; left: 0; background: var(--paper); white-space: normal;
    overflow-wrap: anywhere; min-width: 6.5rem; max-width: 9rem; box-shadow: 1px 0 var(--rule); }
}
@media print {
  body { max-width: none; font-size: 10pt; }
  h2, h3, .note, summary, thead, thead tr, tr.group { break-after: avoid; }
  svg, tr { break-inside: avoid; }
  figcaption { break-before: avoid; }
  tfoot { display: table-row-group; }
  .scroll { overflow: visible; background: none; }
  .runs td { white-space: normal; overflow-wrap: anywhere; font-size: 0.75rem; padding: 0.1rem 0.3rem; }
  .runs code { white-space: nowrap; }
  details::details-content { content-visibility: visible; block-size: auto; }
}
"""
