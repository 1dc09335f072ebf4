/** A word → a map of its uses, one or two mixes side by side. */

import * as api from "./api.js";
import { aligned } from "./align.js";
import { colours } from "./colours.js";
import { choice, el } from "./dom.js";
import { exportBar } from "./export.js";
import { groups } from "./groups.js";
import { isHeap } from "./layout.js";
import { mixer } from "./mixer.js";
import * as mixes from "./mixes.js";
import { scatter } from "./scatter.js";
import { plain } from "./sentence.js";
import { status } from "./status.js";
import { trust } from "./trust.js";
import { wordbox } from "./wordbox.js";

export const title = "Meanings";

const INTERESTING = ["bank", "play", "cell", "bass", "spring", "court", "plant", "match", "right", "light"];
const LIMIT = 400;   // uses on a map: more are hard to read
const FEWEST = 3;    // uses needed to compare distances
const METHODS = [["pca", "PCA", "Fast: the two directions of greatest variance"],
  ["tsne", "t-SNE", "Slower: keeps neighbours together"], ["umap", "UMAP", "Slower: keeps neighbours together"]];

export function view(model, change) {
  const count = model.layers;
  let params = {};
  let shown = null;                     // the server's answer that is drawn
  let drawn = [];                       // the points of each map as drawn
  let fixed = { key: "", maps: [] };    // maps of the word that set scale and direction for all its mixes
  let before = new Map();               // use id → colour
  let last = { key: "", dragging: false };
  const set = (changes, options) => change({ ...params, ...changes }, options);

  const panels = ["mix", "mix2"].map((key, i) => panel(i, count,
    (weights, gamma, dragging) => set({ [key]: mixes.name(weights), [i ? "gamma2" : "gamma"]: gamma === 1 ? null : gamma, use: params.use }, { step: !dragging, dragging }),
    hover, pick));
  const box = wordbox((word) => set({ word, use: null }));
  const method = choice("Projection", METHODS.filter(([name]) => model.map_methods.includes(name)), (value) => set({ method: value === "pca" ? null : value }));
  const number = el("select", { "aria-label": "Number of groups", onchange: () => set({ groups: number.value }) },
    el("option", { value: "" }, "automatic"), d3.range(1, 9).map((k) => el("option", { value: k }, String(k))));
  const second = el("input", { type: "checkbox", onchange: () => set({ mix2: second.checked ? "0" : null, gamma2: null }) });
  const says = status();
  const progress = el("progress", { max: 1, value: 0, "aria-label": "Progress of the map", hidden: true });
  const lede = el("p.lede");
  const cards = groups((id) => hover(id), (id) => pick(id), (cluster) => panels.forEach((p) => p.map.dim(cluster)));
  const bar = exportBar(() => exported(params, shown, panels.filter((p) => !p.node.hidden), drawn));
  const chips = el("p.chips", { "aria-label": "Words to try" });
  const body = el("div.body", {},
    el("div.controls", {}, method.node, el("label.field", {}, "Groups", number), el("label.field", {}, second, "Show a second map")),
    el("div.maps", {}, panels.map((p) => p.node)), cards.node, bar.node);
  const node = el("section.view.meanings", {}, el("h1", {}, "The meanings of ", box.node), lede, chips, says.node, body);
  suggestions(chips, (word) => set({ word, use: null }));

  function hover(id, from = null) {
    panels.forEach((p, i) => p.map.highlight(id, i === from));
  }

  function pick(id) {
    set({ use: id === Number(params.use) && id !== null ? null : id }, { step: false });
  }

  const fetch = api.newest(async (question, stale) => {
    says.waiting("Drawing the map …", progress);
    try {
      const answer = await answerTo(question, stale);
      says.clear();
      if (answer) draw(question, answer);
    } catch (error) {
      body.hidden = true;
      lede.textContent = "";
      if (error.status === 404) says.empty(error.message, chips.childElementCount ? " Try one of the words above." : "", error.message.includes("--index") ? noIndex() : "");
      else says.failed(error);
    }
    [progress.hidden, progress.value] = [true, 0];
  });

  async function answerTo({ dragging, ...question }, stale) {
    if (fixed.key !== question.word) fixed = { key: question.word, maps: await reference(question, count) };
    if (question.method === "pca") return api.map(dragging ? { ...question, clusters: 1 } : question);
    return api.slowMap(question, (done) => { progress.hidden = false; progress.value = done; }, stale);
  }

  /** While a slider is dragged the groups are kept: computing them takes too long, and the eye follows them. */
  function draw(question, fresh) {
    const sameUses = shown && String(shown.uses.map((use) => use.id)) === String(fresh.uses.map((use) => use.id));
    if (!sameUses) before = new Map();
    const answer = question.dragging && sameUses ? { ...fresh, uses: shown.uses, clusters: shown.clusters } : fresh;
    const shades = colours(answer.uses, answer.clusters.length, before);
    before = new Map(answer.uses.map((use) => [use.id, shades[use.cluster]]));
    shown = answer;
    body.hidden = false;
    lede.textContent = summary(question, answer);
    const labels = answer.clusters.length > 1 ? answer.clusters.map((cluster) => cluster.words) : [];
    drawn = answer.maps.map((map) => aligned(map.points, fixed.maps.at(-1)));
    answer.maps.forEach((map, i) => {
      const heap = isHeap(drawn[i]);
      panels[i].map.draw({ uses: answer.uses, points: drawn[i], colours: shades, labels: heap ? [] : labels, word: question.word,
        reference: question.method === "pca" ? fixed.maps : [] }, { dragging: question.dragging });
      panels[i].trust.set(answer.uses.length < FEWEST ? null : map.trustworthiness, heap);
    });
    if (!question.dragging) cards.draw({ uses: answer.uses, clusters: answer.clusters, colours: shades });
    bar.show(true);
    keep(params.use);
  }

  const keep = (use) => panels.forEach((p) => p.map.pick(use === undefined ? null : Number(use)));

  /** Redraws for the parameters; asks the server only if the map itself changes. */
  function show(next, { dragging = false } = {}) {
    params = next;
    const word = next.word ?? "bank";
    const two = Boolean(next.mix2);
    const asked = [[next.mix, next.gamma], [next.mix2, next.gamma2]].slice(0, two ? 2 : 1)
      .map(([mix, gamma]) => ({ weights: mixes.parse(mix, count), gamma: mixes.parseGamma(gamma) }));
    box.set(word);
    method.set(next.method ?? "pca");
    number.value = next.groups ?? "";
    second.checked = two;
    panels[1].node.hidden = !two;
    asked.forEach(({ weights, gamma }, i) => panels[i].set(weights, gamma));
    node.querySelector(".maps").dataset.count = asked.length;
    keep(next.use);
    const question = { word, mixes: asked, method: next.method ?? "pca", limit: LIMIT,
      ...(next.groups ? { clusters: Number(next.groups) } : {}) };
    const key = JSON.stringify(question);
    if (key !== last.key || (last.dragging && !dragging)) fetch({ ...question, dragging });
    last = { key, dragging };
  }

  return { node, show };
}

/** One map with its mixer and its trustworthiness. */
function panel(i, count, onmix, onhover, onpick) {
  const map = scatter(`map${i}`, (id, card) => onhover(id, card ? i : null), onpick);
  const believe = trust();
  const story = el("p.story");
  const mix = mixer("Layer", count, onmix);
  const node = el("figure.map", { "aria-label": i ? "Second map" : "First map" }, map.node, el("figcaption", {}, mix.node, story, believe.node));
  return { node, map, trust: believe, set: (weights, gamma) => {
    mix.set(weights, gamma);
    story.textContent = mixes.story(weights);
  } };
}

/** The first and the top contextual layer at γ = 1: they fix the scale and the direction of all mixes of a word,
    whatever was shown before. */
async function reference({ word, limit }, count) {
  const tops = [...new Set([1, count - 1])].filter((layer) => layer < count).map((layer) => ({ weights: mixes.single(count, layer), gamma: 1 }));
  const answer = await api.map({ word, limit, method: "pca", mixes: tops, clusters: 1 });
  return answer.maps.map((map) => map.points);
}

/** What to run where the server was started without an index. */
const noIndex = () => el("pre", { tabindex: 0 }, "stelmo explore                                  # the bundled index\nstelmo index corpus.txt --to uses               # or an index of your own text\nstelmo explore uses");

function summary({ word, clusters: asked }, { uses, total, clusters }) {
  const how = asked ? "as chosen" : "found without any labels";
  const found = clusters.length > 1 ? `in ${clusters.length} groups (${how})` : "which do not separate into groups in this mix";
  const number = (count) => count.toLocaleString("en");
  const counted = uses.length < total ? `${number(uses.length)} of ${number(total)} uses` : `${number(uses.length)} uses`;
  if (total === 1) return `One use of “${word}” in the index.`;
  return `${counted} of “${word}” in the index, ${found}. Each point is one sentence; nearby points are similar uses.`;
}

/** Ambiguous words that occur in this index; if there are none, its most frequent words. */
async function suggestions(chips, onpick) {
  const look = (word) => api.words(word, 20).then(({ words }) => words.map((found) => found.word).filter((found) => found === word)).catch(() => []);
  const found = (await Promise.all(INTERESTING.map(look))).flat();
  const offered = found.length ? found : (await api.words("", 8).catch(() => ({ words: [] }))).words.map(({ word }) => word);
  chips.replaceChildren(...offered.map((word) => el("button.chip", { type: "button", onclick: () => onpick(word) }, el("bdi", {}, word))));
}

function exported(params, shown, panels, drawn) {
  const rows = shown.uses.map((use, i) => ({
    id: use.id, group: use.cluster, label: shown.clusters[use.cluster].words.join(" "), position: use.position,
    ...Object.assign({}, ...panels.map((_, m) => ({ [`x${m + 1}`]: drawn[m][i][0], [`y${m + 1}`]: drawn[m][i][1] }))),
    sentence: plain(use.tokens),
  }));
  return { name: `meanings-${params.word ?? "bank"}`, svgs: panels.map((p) => p.map.svg), rows, data: shown };
}
