/** A word → a map of its uses, one or two mixes side by side, with a sentence of the visitor among them. */

import * as api from "./api.js";
import { chosen } from "./chosen.js";
import { byColumn, colours, columnsOf } from "./colours.js";
import { choice, counted, el, motion, play } from "./dom.js";
import { credits, exportBar } from "./export.js";
import { contains, finder } from "./find.js";
import { groupName, groups } from "./groups.js";
import { help, trust } from "./help.js";
import { alignment, allCoincide } from "./layout.js";
import { mixer } from "./mixer.js";
import * as mixes from "./mixes.js";
import { ownSentence } from "./own.js";
import { scatter } from "./scatter.js";
import { plain } from "./sentence.js";
import { given, recall, remember } from "./state.js";
import { status } from "./status.js";
import { wordbox } from "./wordbox.js";

export const title = "Meanings";

const LIMIT = 400;   // uses on a map: more are hard to read
const NEAR = 5;      // nearest uses shown for a use
const FEWEST = 3;    // uses needed to compare distances
const FRAME = 1900;  // milliseconds for which a layer is shown when all are played
const FLIGHT = 1300; // milliseconds of the move to it
const METHODS = [["pca", "PCA", "Fast: the two directions of greatest variance"],
  ["tsne", "t-SNE", "Slower: keeps neighbours together"], ["umap", "UMAP", "Slower: keeps neighbours together"]];

/** source: the server, or a file that contains answers (then source.saved lists its words, and nothing else can be computed). */
export function view(model, change, source = api) {
  const count = model.layers;
  const saved = source !== api;
  let params = {};
  let grouped = null;                   // the answer, with the groups that were found
  let shown = null;                     // what is drawn: the same, or grouped by a column of the data
  let drawn = [];                       // the points of each map as drawn
  let fixed = { key: "", maps: [] };    // maps of the word that set scale and direction for all its mixes
  let before = new Map();               // use id → colour
  let shades = [];                      // colour of each group
  let selected = null;                  // ids encircled on a map
  let last = { key: "", dragging: false, colour: undefined };
  const labelled = new WeakSet();       // groups whose substitutes were asked for
  let open = "";                        // what the panel of a use shows
  let opening = motion() && !recall("sessionStorage", "played");   // the layers are played once in a tab
  let playing = new AbortController();
  const set = (changes, options) => change({ ...params, ...changes }, options);
  const word = () => params.word ?? (saved ? source.saved[0] : "bank");
  const choose = (other) => set({ word: other, use: null, find: null });

  const panels = ["mix", "mix2"].map((key, i) => panel(i, count, saved,
    (weights, gamma, dragging) => set({ [key]: mixes.name(weights), [i ? "gamma2" : "gamma"]: gamma === 1 ? null : gamma }, { step: !dragging, dragging }),
    hover, pick, (ids) => { selected = ids; set({ find: null }, { step: false }); }, () => playLayers().catch(says.failed)));
  const failed = () => last.key === "";   // then the same question is asked again
  const box = saved ? el("em.word") : wordbox((other) => { if (other !== word() || failed()) choose(other); });
  const method = choice("Projection", METHODS.filter(([name]) => model.map_methods.includes(name)), (value) => set({ method: value === "pca" ? null : value }));
  const groupCount = el("select", { "aria-label": "Number of groups", onchange: () => set({ groups: groupCount.value }) },
    el("option", { value: "" }, "automatic"), d3.range(1, 9).map((k) => el("option", { value: k }, String(k))));
  const colourBy = el("select", { "aria-label": "Colour by", onchange: () => set({ colour: colourBy.value }) });
  const colourField = el("label.field", { hidden: true }, "Colour by", colourBy);
  const second = el("input", { type: "checkbox", onchange: () => set({ mix2: second.checked ? "0" : null, gamma2: null }) });
  const says = status();
  const progress = el("progress", { max: 1, value: 0, "aria-label": "Progress of the map", hidden: true });
  const lede = el("p.lede");
  const how = help();
  const own = ownSentence(source, (text) => { if (text !== (params.own ?? null) || failed()) set({ own: text, use: null }); }, choose);
  const panelOfUse = chosen(hover, pick, () => {
    set(params.use === undefined ? { own: null } : { use: null });
    panels[0].map.svg.focus({ preventScroll: true });   // the button that had the focus is gone
  });
  const find = (text) => { selected = null; set({ find: text }, { step: false }); };
  const found = finder(find, () => find(null), hover, pick, table);
  const cards = groups(hover, pick, (cluster) => panels.forEach((p) => p.map.dim(cluster)));
  const bar = exportBar(exported);
  bar.show(false);
  const chips = el("p.chips", { "aria-label": "Words to try", role: "group" });
  const body = el("div.stage", {},
    el("div.maps", {}, panels.map((p) => p.node)),
    el("div.side", {}, !saved && own.node, panelOfUse.node, cards.node),
    el("div.options", {}, el("div.controls", {}, !saved && method.node, !saved && el("label.field", {}, "Groups", groupCount), colourField, el("label.field", {}, second, "Show a second map")),
      found.node, el("div.trusts", {}, panels.map((p) => p.trust.node)), bar.node));
  const node = el("section.view.meanings", {}, el("div.title", {}, el("h1", {}, "The meanings of ", saved ? box : box.node), how.button, chips), lede, says.node, body, how.dialog);
  const offered = suggestions();

  /** Marks a use on all maps; the map with the number `from` shows its sentence too. */
  function hover(id, from = null) {
    panels.forEach((p, i) => p.map.highlight(id, i === from));
  }

  /** Chooses a use, or no longer. */
  function pick(id) {
    set({ use: id === Number(params.use) ? null : id }, { step: false });
  }

  const fetch = api.newest(async (question, stale) => {
    says.waiting("Drawing the map …", progress);
    try {
      const answer = await answerTo(question, stale);
      says.clear();
      if (answer) await draw(question, answer);
    } catch (error) {
      last.key = "";
      body.classList.add("stale");   // the last map stays until the next one
      if (error.status === 404 || !grouped) {
        body.hidden = true;
        lede.textContent = "";
      }
      if (error.status !== 404) says.failed(error);
      else if (error.message.includes("--index")) says.empty(error.message, noIndex());
      else if (!params.word && (await offered).length) set({ word: (await offered)[0].word }, { step: false });
      else says.empty(error.message, " ", await didYouMean(question.word));
    }
    [progress.hidden, progress.value] = [true, 0];
  });

  async function answerTo({ dragging, text, ...question }, stale) {
    if (fixed.key !== question.word) fixed = { key: question.word, maps: await reference(question) };
    const place = saved ? null : await own.locate(text, question.word);
    const ask = async (placed) => {
      const asked = { ...question, near: dragging ? 0 : NEAR, ...(placed ? { own: placed } : {}) };
      const answer = question.method === "pca" ? await source.map(dragging || sameGroups(question) ? { ...asked, clusters: 1 } : asked)
        : await source.slowMap(asked, (done) => { progress.hidden = false; progress.value = done; }, stale);
      return answer && { ...answer, own: placed };
    };
    if (!place) return ask(null);
    return ask(place).catch((error) => {
      own.refuse(error);
      return ask(null);   // the map without the sentence
    });
  }

  /** The groups depend on these only; a new sentence of the visitor or a second map does not change them. */
  const groupKey = ({ word: of, mixes: [first], clusters, method: by }) => JSON.stringify([of, first, clusters, by]);
  const sameGroups = (question) => grouped !== null && grouped.groupKey === groupKey(question);

  /** The first and the top contextual layer at γ = 1: they fix the scale and the direction of all mixes of a word,
      whatever was shown before. */
  async function reference({ word: of, limit }) {
    const tops = [...new Set([1, count - 1])].filter((layer) => layer < count).map((layer) => ({ weights: mixes.single(count, layer), gamma: 1 }));
    const answer = await source.map({ word: of, limit, method: "pca", mixes: tops, clusters: 1 });
    return answer.maps.map((map) => map.points);
  }

  /** While a slider is dragged the groups are kept: computing them takes too long, and they could not be followed by eye. */
  async function draw(question, fresh) {
    const sameUses = grouped && String(grouped.uses.map((use) => use.id)) === String(fresh.uses.map((use) => use.id));
    if (!sameUses) [before, selected] = [new Map(), null];
    const kept = sameUses && (question.dragging || (question.method === "pca" && sameGroups(question)));
    const answer = kept ? { ...fresh, uses: grouped.uses, clusters: grouped.clusters } : fresh;
    grouped = { ...answer, groupKey: kept ? grouped.groupKey : question.dragging ? "" : groupKey(question) };
    body.hidden = false;
    body.classList.remove("stale");
    colour(question.dragging);
    lede.replaceChildren(...summary(question, grouped, byWhat()));
    bar.show(true);
    if (!question.dragging) labelGroups();
    if (opening) await playLayers();
    drawMaps(shown, question.method, question.dragging);
    decorate();
  }

  /** The column of the data that the uses are coloured by; undefined for the groups. */
  const byWhat = () => (grouped && columnsOf(grouped).includes(params.colour) ? params.colour : undefined);

  /** Colours for the groups, or for the values of a column. */
  function colour(dragging = false) {
    shown = byColumn(grouped, params.colour);
    shades = colours(shown.uses, shown.clusters.length, before);
    before = new Map(shown.uses.map((use) => [use.id, shades[use.cluster]]));
    const names = columnsOf(grouped);
    colourField.hidden = !names.length;
    colourBy.replaceChildren(el("option", { value: "" }, "group"), ...names.map((name) => el("option", { value: name }, name)));
    colourBy.value = byWhat() ?? "";
    if (!dragging) cards.draw({ uses: shown.uses, clusters: shown.clusters, colours: shades });
  }

  /** What the language model expects in place of each group. It takes a second, so the map does not wait for it. */
  async function labelGroups() {
    const { uses, clusters } = grouped;
    if (saved || !model.has_softmax || clusters.length < 2 || labelled.has(clusters)) return;
    labelled.add(clusters);
    const answer = await source.substitutes(clusters.map((_, c) => uses.filter((use) => use.cluster === c).map((use) => use.id))).catch(() => null);
    if (!answer) return void labelled.delete(clusters);
    clusters.forEach((cluster, c) => { cluster.substitutes = answer.groups[c]; });
    if (clusters !== shown.clusters) return;
    cards.instead(clusters);
    decorate();
  }

  function drawMaps(answer, by, dragging, options = {}) {
    const labels = answer.clusters.length > 1 ? answer.clusters.map((cluster) => cluster.words) : [];
    drawn = answer.maps.map((map, i) => {
      const turn = alignment(map.points, fixed.maps.at(-1));
      const points = map.points.map(turn);
      const coincide = allCoincide(points);
      panels[i].map.draw({ uses: answer.uses, points, colours: shades, labels: coincide ? [] : labels, word: answer.word,
        own: map.own && { point: turn(map.own.point) }, reference: by === "pca" ? fixed.maps : [] }, { dragging, ...options });
      panels[i].trust.set(answer.uses.length < FEWEST ? null : map.trustworthiness, coincide);
      return points;
    });
  }

  /** What is shown about single uses: the chosen one or the visitor's sentence with its nearest uses, and the selection. */
  function decorate() {
    if (!shown) return;
    const use = params.use === undefined ? -1 : shown.uses.findIndex(({ id }) => id === Number(params.use));
    const mine = use < 0 && shown.own && shown.maps[0].own;
    const near = (mine ? mine.near : shown.maps[0].near?.[use] ?? []).map(([i, similarity]) => ({ use: shown.uses[i], similarity, colour: shades[shown.uses[i].cluster] }));
    panels.forEach((p, i) => {
      const own = shown.maps[i] && (mine ? shown.maps[i].own?.near : shown.maps[i].near?.[use]);
      p.map.pick(use < 0 ? null : shown.uses[use].id);
      p.map.light(mine ? "own" : shown.uses[use]?.id ?? null, (own ?? []).map(([j]) => shown.uses[j].id));
    });
    panelOfUse.draw(use >= 0 ? { title: "Chosen use", ...shown.uses[use], group: group(shown.uses[use].cluster), near }
      : mine ? { title: "Your sentence", ...shown.own, near, ...vote(near) } : null);
    uncover(use >= 0 ? `use ${params.use}` : mine ? params.own : "");
    const uses = params.find ? shown.uses.filter((one) => contains(one, params.find)) : selected && shown.uses.filter(({ id }) => selected.includes(id));
    panels.forEach((p) => p.map.keep(uses && uses.map(({ id }) => id)));
    found.draw(uses && uses.map((one) => ({ ...one, colour: shades[one.cluster] })), Boolean(params.find));
  }

  /** On a phone the panel covers the lower part of the screen; when it opens, the page is scrolled to the map. */
  function uncover(what) {
    const [canvas, panel] = [panels[0].map.node, panelOfUse.node].map((one) => one.getBoundingClientRect());
    const covered = getComputedStyle(panelOfUse.node).position === "fixed" && (canvas.top < 0 || canvas.bottom > panel.top);
    if (what && what !== open && covered) scrollBy({ top: canvas.top - 8, behavior: motion() ? "smooth" : "auto" });
    open = what;
  }

  const group = (cluster) => ({ kind: byWhat() ?? "Group", substitutes: shown.clusters[cluster].substitutes, colour: shades[cluster], label: shown.clusters.length > 1 ? groupName(shown.clusters[cluster], cluster) : "", size: shown.clusters[cluster].size });

  /** The group of most of the nearest uses. */
  function vote(near) {
    const [[cluster, votes]] = d3.rollups(near, (uses) => uses.length, ({ use }) => use.cluster).sort((a, b) => b[1] - a[1]);
    const note = (params.method ?? "pca") === "pca" ? "" : "This projection cannot place a new sentence exactly: it is drawn in the middle of its nearest uses.";
    return { group: { ...group(cluster), votes }, note };
  }

  /** From layer 0 to the top, in the colours of the groups that are shown. A key, a press or new parameters end it. */
  async function playLayers() {
    if (!shown) return;
    opening = false;
    remember("sessionStorage", "played", "1");
    playing.abort();
    playing = new AbortController();
    const { signal } = playing;
    const answer = shown;
    const layers = await Promise.all(d3.range(count).map((layer) =>
      source.map({ word: answer.word, limit: LIMIT, method: "pca", mixes: [{ weights: mixes.single(count, layer), gamma: 1 }], clusters: 1 })));
    if (signal.aborted) return;
    panels[0].map.light(null, []);
    await play(layers.map((one, layer) => () => {
      panels[0].set(mixes.single(count, layer), 1);
      panels[0].map.say(subtitle(layer, count, grouped));
      drawMaps({ ...answer, maps: one.maps, clusters: layer === count - 1 ? answer.clusters : [] }, "pca", false, { duration: FLIGHT });
    }), motion() ? FRAME : FRAME / 2, signal);
    panels[0].map.say("");
    controls();
    drawMaps(shown, shown.method, false);
    decorate();
  }

  /** The controls show the parameters. */
  function controls() {
    const asked = [[params.mix, params.gamma], [params.mix2, params.gamma2]].slice(0, params.mix2 ? 2 : 1)
      .map(([mix, gamma]) => ({ weights: mixes.parse(mix, count), gamma: mixes.parseGamma(gamma) }));
    if (saved) box.textContent = word();
    else box.set(word());
    own.set(params.own, word());
    found.set(params.find ?? "");
    method.set(params.method ?? "pca");
    groupCount.value = params.groups ?? "";
    second.checked = asked.length > 1;
    panels[1].node.hidden = asked.length < 2;
    panels[1].trust.node.hidden = asked.length < 2;
    asked.forEach(({ weights, gamma }, i) => panels[i].set(weights, gamma));
    node.querySelector(".stage").dataset.count = asked.length;
    return asked;
  }

  /** Redraws for the parameters; asks the server only if the map itself changes. */
  function show(next, { dragging = false } = {}) {
    params = given(next);
    playing.abort();
    if (params.mix || params.use || params.own) opening = false;   // a link is shown as it was sent
    const asked = controls();
    const question = { word: word(), mixes: asked, method: saved ? "pca" : params.method ?? "pca", limit: LIMIT, text: params.own ?? "",
      ...(params.groups ? { clusters: Number(params.groups) } : {}) };
    const key = JSON.stringify(question);
    const recoloured = grouped && params.colour !== last.colour;
    if (recoloured) before = new Map();
    if (key !== last.key || (last.dragging && !dragging)) fetch({ ...question, dragging });
    else {
      if (recoloured) {
        colour();
        lede.replaceChildren(...summary(question, grouped, byWhat()));
        drawMaps(shown, shown.method, false);
      }
      decorate();
    }
    last = { key, dragging, colour: params.colour };
  }

  async function suggestions() {
    const { words } = await source.suggested().catch(() => ({ words: [] }));
    const listed = words.length ? words : (await source.words("", 8).catch(() => ({ words: [] }))).words;
    chips.replaceChildren(...listed.map(({ word: one }) => chip(one)));
    return listed;
  }

  const chip = (one) => el("button.chip", { type: "button", onclick: () => choose(one) }, el("bdi", {}, one));

  async function didYouMean(typed) {
    const { words } = await source.similar(typed).catch(() => ({ words: [] }));
    return words.length ? el("span.chips", {}, "Did you mean ", words.map(({ word: one }) => chip(one))) : "Try one of the words above.";
  }

  function table(uses) {
    const at = new Map(grouped.uses.map((use, i) => [use.id, i]));
    const layers = shown.maps.map((_, m) => mixes.name(mixes.parse(m ? params.mix2 : params.mix, count))).join(" and ");
    return uses.map(({ id }) => grouped.uses[at.get(id)]).map((use) => ({
      word: shown.word, layer: layers, id: use.id, group: use.cluster, label: grouped.clusters[use.cluster].words.join(" "),
      substitutes: (grouped.clusters[use.cluster].substitutes ?? []).join(" "), position: use.position,
      ...Object.fromEntries(Object.entries(use.columns ?? {}).map(([name, value]) => [`data ${name}`, value])),
      ...Object.assign({}, ...drawn.map((points, m) => ({ [`x${m + 1}`]: points[at.get(use.id)][0], [`y${m + 1}`]: points[at.get(use.id)][1] }))),
      sentence: plain(use.tokens),
    }));
  }

  function exported() {
    const drawings = panels.filter((p) => !p.node.hidden);
    const titles = drawings.map((_, m) => mixes.title(mixes.parse(m ? params.mix2 : params.mix, count)));
    const legend = shown.clusters.length > 1 ? shown.clusters.map((cluster, c) => ({ colour: `c${shades[c]}`, text: legendText(cluster, c) })) : [];
    const { groupKey: _, ...data } = grouped;
    const credit = credits(model);
    return { name: `meanings-${shown.word}`, svgs: drawings.map((p) => p.map.svg), rows: table(shown.uses), data: { credit, layers: titles, ...data },
      picture: { title: `The meanings of “${shown.word}”: ${summaryOfUses(shown)}`, captions: titles, legend, credit } };
  }

  return { node, show };
}

/** One map with its layers and its trustworthiness. */
function panel(i, count, saved, onmix, onhover, onpick, onselect, onplay) {
  const map = scatter(`map${i}`, (id, card) => onhover(id, card ? i : null), onpick, onselect);
  const story = el("p.story");
  const mix = mixer("Layer", count, onmix);
  const playButton = el("button.play", { type: "button", onclick: onplay, title: "Show all layers, from the spelling to the meaning" }, "▶ Play");
  const node = el("figure.map", { "aria-label": i ? "Second map" : "First map" }, map.node,
    el("figcaption", {}, el("div.layers-row", {}, mix.presets, i === 0 && playButton, map.tools), !saved && mix.sliders, story));
  return { node, map, trust: trust(), set: (weights, gamma) => {
    mix.set(weights, gamma);
    story.textContent = mixes.story(weights);
  } };
}

/** What to run where the server was started without an index. */
const noIndex = () => el("pre", { tabindex: 0 }, "stelmo explore                                  # the bundled index\nstelmo index corpus.txt --to uses               # or an index of your own text\nstelmo explore uses");

const legendText = (cluster, c) => `${groupName(cluster, c)} (${cluster.size})${cluster.substitutes?.length ? `; the model expects here: ${cluster.substitutes.join(", ")}` : ""}`;
const summaryOfUses = ({ uses, total }) => (uses.length < total ? `${uses.length.toLocaleString("en")} of ${counted(total, "use")}` : counted(uses.length, "use"));

function summary({ word, clusters: asked }, { uses, total, clusters }, column) {
  if (total === 1) return [`One use of “${word}” in the index.`];
  const found = column ? `coloured by ${column}` : clusters.length > 1 ? `in ${clusters.length} groups` : "which do not separate into groups here";
  const how = clusters.length > 1 && !asked && !column ? ", found without any labels" : "";
  return [`${summaryOfUses({ uses, total })} of “${word}”, ${found}`, el("span.wide", {}, how),
    ".", el("span.wide", {}, " Each point is one sentence; nearby points are similar uses.")];
}

/** What is seen while the layers are played. */
function subtitle(layer, count, { uses, clusters }) {
  if (layer === 0) return `Layer 0 sees only the spelling: all ${counted(uses.length, "use")} are the same.`;
  if (layer < count - 1) return `Layer ${layer} has read the sentence: the uses begin to separate.`;
  return clusters.length > 1 ? `Layer ${layer}, the top: ${clusters.length} groups of similar uses.` : `Layer ${layer}, the top: similar uses are close to each other.`;
}
