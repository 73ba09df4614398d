"""The look of a report: light and dark, from a phone to paper."""

STYLE = """
:root { color-scheme: light dark; --ink: #1f2933; --faint: #5d6879; --line: #e4e7ec;
  --page: #f5f7fa; --paper: #fff; --soft: #f2f4f7; --accent: #2f5fb3;
  --even: #475467; --even-back: #eef0f3; --better: #05603a; --better-back: #dcf5e8;
  --worse: #912018; --worse-back: #fde8e6; }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, Arial, sans-serif; }
main { max-width: 1060px; margin: 0 auto; padding: 28px 20px 60px; }
header h1 { margin: 0 0 4px; font-size: 28px; letter-spacing: -0.01em; }
header p { margin: 0 0 20px; color: var(--faint); }
section { background: var(--paper); border: 1px solid var(--line); border-radius: 12px;
  padding: 18px 22px; margin: 0 0 18px; }
h2 { margin: 0 0 10px; font-size: 17px; }
.note { color: var(--faint); font-size: 13px; margin: 10px 0 0; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(170px, 1fr)); gap: 14px;
  background: none; border: 0; padding: 0; }
.card { background: var(--paper); border: 1px solid var(--line); border-radius: 12px;
  padding: 14px 18px; }
.card span { display: block; }
.card .name { color: var(--faint); font-size: 13px; }
.card .figure { font-size: 32px; font-weight: 650; line-height: 1.25; letter-spacing: -0.02em; }
.card .figure small { font-size: 17px; font-weight: 500; margin-left: 3px; color: var(--faint); }
.card .range { color: var(--faint); font-size: 13px; font-variant-numeric: tabular-nums; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: 8px 10px; border-bottom: 1px solid var(--line);
  vertical-align: top; white-space: nowrap; }
tbody tr:last-child > * { border-bottom: 0; }
thead th { font-weight: 600; }
tbody th { text-align: left; font-weight: 600; white-space: normal; min-width: 210px; }
.slices thead th { white-space: normal; max-width: 130px; vertical-align: bottom; }
.slices tbody th[scope="row"] { font-weight: 400; padding-left: 22px; }
th small { display: block; font-weight: 400; color: var(--faint); font-size: 12px;
  line-height: 1.35; }
td small { display: block; color: var(--faint); }
.of { margin: 0 0 6px; font-weight: 600; }
th i, .strip i, .of i { display: inline-block; width: 10px; height: 10px; border-radius: 3px;
  margin-right: 6px; }
.verdict { display: block; width: max-content; margin: 3px 0 0 auto; padding: 0 8px;
  font-size: 12px;  border-radius: 10px; background: var(--even-back); color: var(--even); }
.verdict.better { background: var(--better-back); color: var(--better); }
.verdict.worse { background: var(--worse-back); color: var(--worse); }
figure { margin: 0; }
figure svg { width: 100%; height: auto; display: block; }
.examples { display: grid; grid-template-columns: repeat(auto-fill, minmax(420px, 1fr));
  gap: 14px; }
.example { border: 1px solid var(--line); border-radius: 10px; padding: 10px 12px; min-width: 0; }
.typed { margin: 0 0 8px; font-size: 16px; white-space: pre-wrap; }
.typed .empty { color: var(--faint); }
.caret { display: inline-block; width: 2px; height: 1.1em; background: var(--accent);
  vertical-align: text-bottom; margin-left: 1px; }
.strip { display: grid; grid-template-columns: 10px 96px repeat(3, minmax(0, 1fr)); gap: 6px;
  align-items: center; margin-top: 5px; }
.strip .model { color: var(--faint); font-size: 12px; overflow: hidden; text-overflow: ellipsis;
  white-space: nowrap; }
.slot { background: var(--soft); border-radius: 8px; padding: 3px 6px; text-align: center;
  overflow: hidden; text-overflow: ellipsis; }
.slot small { display: block; color: var(--faint); font-size: 11px; line-height: 1.2; }
.slot.none { grid-column: span 3; color: var(--faint); }
details { border-top: 1px solid var(--line); padding: 8px 0; }
details:first-of-type { border-top: 0; }
summary { cursor: pointer; font-weight: 600; }
pre { overflow-x: auto; background: var(--soft); border-radius: 8px; padding: 12px;
  font-size: 12.5px;
  line-height: 1.45; }
.made { color: var(--faint); font-size: 12.5px; margin: 10px 0 0; overflow-wrap: anywhere; }
.made code { font: 12px/1.45 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
@media (max-width: 520px) { .examples { grid-template-columns: 1fr; }
  main { padding: 16px 10px 40px; }
  section { padding: 14px 12px; }
  tbody th { min-width: 128px; }
  th, td { padding: 7px 7px; }
  figure { overflow-x: auto; }
  figure svg { min-width: 620px; }
  .strip { grid-template-columns: 10px 64px repeat(3, minmax(0, 1fr)); } }
@media screen and (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ee; --faint: #9aa5b4; --line: #323a46; --page: #14181e; --paper: #1c222a;
    --soft: #262d37; --accent: #8db2f5; --even: #c3cbd6; --even-back: #333b47;
    --better: #8fe0b8; --better-back: #143b2a; --worse: #f5aaa3; --worse-back: #4a1d1a; }
  /* Plots are drawn for paper: their lightness is turned round, their hues stay. */
  figure svg, th i, .strip i, .of i { filter: invert(0.9) hue-rotate(180deg); } }
@media print { body { background: #fff; } section, .card { break-inside: avoid; } }
"""
