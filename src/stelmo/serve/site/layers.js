/** Trained task models → the layer weights that they learned; without any, those of the runs described in the documentation. */

import * as api from "./api.js";
import { el } from "./dom.js";
import { credits, exportBar } from "./export.js";
import * as mixes from "./mixes.js";
import { link } from "./state.js";
import { status } from "./status.js";

export const title = "Layers";

const ROW = 58;      // pixels of a bar with its title
const LEGEND = 40;   // pixels above the first bar

export function view(model) {
  let shown = [];
  const says = status();
  const about = el("div.about", { hidden: true });
  const svg = d3.create("svg").attr("class", "shares").attr("role", "img");
  const table = el("div.table", { tabindex: 0, role: "region", "aria-label": "Learned weights" });
  const bar = exportBar(() => ({ name: "layers", svgs: [svg.node()], rows: rows(shown), data: shown, picture: { title: "Learned layer weights", credit: credits(model) } }));
  const body = el("div", { hidden: true }, el("div.shares-box", {}, svg.node()), table, bar.node);
  const node = el("section.view.layers", {}, el("h1", {}, "Which layers does a task use?"),
    el("p.lede", {}, "A task model learns its own mix of the layers: weights s that sum to 1, and a scale γ. ",
      "In the paper (Peters et al. 2018) most tasks put most of the weight on layer 1."), says.node, about, body);
  new ResizeObserver(() => shown.length && paint(svg, shown)).observe(body);

  async function show() {
    says.waiting("Loading the task models …");
    try {
      shown = await api.tasks();
      about.hidden = shown.length > 0;
      if (!shown.length) await showOurs();
      draw();
    } catch (error) {
      says.failed(error);
    }
  }

  async function showOurs() {
    const ours = await api.learned();
    shown = ours.tasks;
    about.replaceChildren(el("p", {}, "No task model was given to this page, so it shows the weights that ours learned. ", ours.about),
      el("details", {}, el("summary", {}, "Show your own"), el("pre", { tabindex: 0 }, "stelmo task ner --data DIR --to RUN\nstelmo explore --task RUN")));
  }

  function draw() {
    says.clear();
    body.hidden = false;
    paint(svg, shown);
    const depth = depthOf(shown);
    const lines = flat(shown).map(({ run, output }) => el("tr", {}, el("th", { scope: "row" }, run.name), el("td", {}, run.task),
      el("td", {}, output.placement), d3.range(depth).map((l) => el("td.number", {}, output.weights[l]?.toFixed(2))), el("td.number", {}, output.gamma.toFixed(2)),
      el("td", {}, output.weights.length === model.layers ? el("a", { href: link("meanings", { mix: mixes.name(output.weights), gamma: output.gamma }) }, "show this mix") : "another number of layers")));
    const head = ["Run", "Task", "Placed at", ...d3.range(depth).map((l) => `s${l}`), "γ", "Map"];
    table.replaceChildren(el("table", {}, el("thead", {}, el("tr", {}, head.map((name) => el("th", { scope: "col" }, name)))), el("tbody", {}, lines)));
  }

  return { node, show };
}

/** Layers of the deepest model. */
const depthOf = (tasks) => d3.max(flat(tasks), ({ output }) => output.weights.length);
const flat = (tasks) => tasks.flatMap((run) => run.outputs.map((output) => ({ run, output })));

/** One bar for each mix, cut into the shares of its layers. */
function paint(svg, tasks) {
  const outputs = flat(tasks);
  const width = svg.node().parentNode.clientWidth;
  const height = outputs.length * ROW + LEGEND;
  const x = d3.scaleLinear([0, 1], [0, width]);
  svg.attr("width", width).attr("height", height).attr("viewBox", `0 0 ${width} ${height}`)
    .attr("aria-label", `Learned layer weights of ${outputs.length} mixes; the table below has the numbers`);
  svg.selectAll("*").remove();
  svg.selectAll("g.key").data(d3.range(depthOf(tasks))).join("g").attr("class", "key").attr("transform", (l) => `translate(${l * 96},0)`)
    .call((g) => g.append("rect").attr("class", (l) => `share l${l % 8}`).attr("width", 14).attr("height", 14).attr("rx", 3))
    .call((g) => g.append("text").attr("x", 21).attr("y", 12).text((l) => `layer ${l}`));
  const row = svg.selectAll("g.mix").data(outputs).join("g").attr("class", "mix").attr("transform", (_, i) => `translate(0,${LEGEND + i * ROW})`);
  row.append("text").attr("y", 12).text(({ run, output }) => `${run.task} · ${output.placement} · γ = ${output.gamma.toFixed(2)}`);
  const part = row.selectAll("g").data(({ output }) => parts(output.weights)).join("g").attr("transform", ({ from }) => `translate(${x(from)},20)`);
  part.append("rect").attr("class", (_, l) => `share l${l % 8}`).attr("width", ({ share }) => Math.max(0, x(share) - 2)).attr("height", 24).attr("rx", 3);
  part.append("text").attr("class", "figure").attr("x", ({ share }) => x(share) / 2 - 1).attr("y", 12).attr("dy", "0.35em")
    .text(({ weight, share }) => (x(share) > 40 ? weight.toFixed(2) : ""));
}

/** Where each share begins; rounded weights need not sum to 1 exactly. */
function parts(weights) {
  const total = d3.sum(weights);
  const ends = d3.cumsum(weights);
  return weights.map((share, l) => ({ weight: share, share: share / total, from: (ends[l] - share) / total }));
}

function rows(tasks) {
  return flat(tasks).map(({ run, output }) => ({ name: run.name, task: run.task, placement: output.placement, gamma: output.gamma,
    ...Object.fromEntries(output.weights.map((share, l) => [`s${l}`, share])) }));
}
