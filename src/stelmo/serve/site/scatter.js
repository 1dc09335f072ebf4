/** Uses with places, groups and labels → the map of one mix. Knows no server. */

import { el, motion } from "./dom.js";
import { places, step } from "./layout.js";
import { plain, sentence } from "./sentence.js";

const REACH = 30;        // pixels from the pointer within which a point is meant
const GLIDE = 700;       // milliseconds of a move between layers
const FOLLOW = 160;      // and while a slider is dragged
const TOGETHER = 14;     // pixels between the middles of two groups that are one on the map
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

/** onhover(id or null) and onpick(id or null) are told; highlight, pick and dim are how the page answers. */
export function scatter(name, onhover, onpick) {
  const svg = d3.create("svg").attr("class", "scatter").attr("role", "listbox").attr("tabindex", 0);
  const dots = svg.append("g").attr("class", "dots").attr("role", "presentation");
  const names = svg.append("g").attr("class", "names").attr("aria-hidden", "true");
  const card = el("div.card", { hidden: true, "aria-hidden": "true" });
  const node = el("div.canvas", {}, svg.node(), card);
  const optionId = (use) => `${name}-${use.id}`;
  let shown = { uses: [], points: [], colours: [], labels: [], reference: [], word: "" };
  let spots = [];
  let [active, picked, dimmed] = [null, null, null];

  new ResizeObserver(() => shown.uses.length && paint(0)).observe(node);

  function draw(content, { dragging = false } = {}) {
    const same = content.word === shown.word;
    shown = content;
    svg.attr("aria-label", `${content.uses.length} uses of ${content.word}; arrow keys walk over them, Enter keeps one`);
    if (!content.uses.some((use) => use.id === active)) highlight(null);
    paint(!motion() || document.hidden ? 0 : dragging ? FOLLOW : same ? GLIDE : 0);
  }

  function paint(duration) {
    const [width, height] = [node.clientWidth, node.clientHeight];
    if (!width || !height) return;
    svg.attr("viewBox", `0 0 ${width} ${height}`);
    spots = places(shown.points, width, height, shown.reference);
    const spot = (_, i) => `translate(${spots[i].map((p) => p.toFixed(1))})`;
    const dot = dots.selectAll("g").data(shown.uses, (use) => use.id)
      .join((enter) => enter.append("g").attr("role", "option").attr("transform", spot).call((g) => g.append("circle").attr("r", 5.5)))
      .attr("id", optionId)
      .attr("class", (use) => `dot c${shown.colours[use.cluster]}`)
      .attr("aria-label", (use) => plain(use.tokens));
    mark();
    glide(dot, spot, duration);
    paintNames(width, height, duration);
  }

  function paintNames(width, height, duration) {
    const texts = distinct(shown.labels.map((words, cluster) => ({ cluster, text: words.join(" · "), ...anchor(cluster) }))
      .filter((label) => label.text && label.size));
    apart(texts, width, height);
    const at = (label) => `translate(${label.x.toFixed(1)},${label.y.toFixed(1)})`;
    const text = names.selectAll("text").data(texts, (label) => shown.colours[label.cluster])
      .join((enter) => enter.append("text").attr("transform", at).attr("dy", "0.35em"))
      .attr("class", (label) => `name c${shown.colours[label.cluster]}`)
      .classed("faint", (label) => dimmed !== null && label.cluster !== dimmed)
      .text((label) => label.text);
    glide(text, at, duration);
  }

  /** Where a group's label stands: over its middle, above most of its points. */
  function anchor(cluster) {
    const own = spots.filter((_, i) => shown.uses[i].cluster === cluster);
    const [x, y] = [0, 1].map((axis) => d3.median(own, (p) => p[axis]) ?? 0);
    return { middle: [x, y], x, y: (d3.quantile(own, 0.1, (p) => p[1]) ?? 0) - 16, size: own.length };
  }

  function mark() {
    dots.selectAll("g")
      .classed("active", (use) => use.id === active)
      .classed("picked", (use) => use.id === picked)
      .classed("faint", (use) => dimmed !== null && use.cluster !== dimmed && use.id !== active)
      .attr("aria-selected", (use) => String(use.id === picked));
    names.selectAll("text").classed("faint", (label) => dimmed !== null && label.cluster !== dimmed);
    dots.selectAll(".picked, .active").raise();
  }

  /** Shows a use: a ring in every map, its sentence where the pointer or the keys are. */
  function highlight(id, withCard = false) {
    active = id;
    svg.classed("reading", id !== null);
    mark();
    const i = shown.uses.findIndex((use) => use.id === id);
    card.hidden = i < 0 || !withCard;
    if (i < 0) svg.attr("aria-activedescendant", null);
    else svg.attr("aria-activedescendant", optionId(shown.uses[i]));
    if (!card.hidden) place(i);
  }

  function place(i) {
    const [x, y] = spots[i];
    card.className = `card c${shown.colours[shown.uses[i].cluster]}`;
    card.replaceChildren(sentence(shown.uses[i].tokens, shown.uses[i].position));
    const room = node.clientWidth - card.offsetWidth;
    card.style.left = `${Math.max(0, Math.min(room, x - card.offsetWidth / 2))}px`;
    card.style.top = y > node.clientHeight / 2 ? `${y - card.offsetHeight - 14}px` : `${y + 14}px`;
  }

  const under = (event) => {
    if (!spots.length) return null;
    const [x, y] = d3.pointer(event);
    const i = d3.Delaunay.from(spots).find(x, y);
    return Math.hypot(spots[i][0] - x, spots[i][1] - y) < REACH ? shown.uses[i].id : null;
  };

  function key(event) {
    const at = shown.uses.findIndex((use) => use.id === active);
    const walk = ARROWS[event.key];
    if (walk && spots.length) onhover(shown.uses[at < 0 ? 0 : step(spots, at, walk)].id, true);
    else if (event.key === "Enter" || event.key === " ") onpick(active);
    else if (event.key === "Escape") { onpick(null); onhover(null); }
    else return;
    event.preventDefault();
  }

  svg.on("pointermove pointerdown", (event) => { const id = under(event); if (id !== active || card.hidden) onhover(id, true); })
    .on("pointerleave", () => onhover(null))
    .on("click", (event) => onpick(under(event)))
    .on("keydown", key)
    .on("blur", () => onhover(null));

  return {
    node, svg: svg.node(), draw, highlight,
    pick: (id) => { picked = id; mark(); },
    dim: (cluster) => { dimmed = cluster; mark(); },
  };
}

/** To where the transform says, over so many milliseconds. As strings: d3 would ask the drawing for every matrix. */
function glide(selection, transform, duration) {
  if (!duration) selection.interrupt().attr("transform", transform);
  else selection.transition().duration(duration).ease(d3.easeCubicOut).attrTween("transform", function (datum, i) {
    return d3.interpolateString(this.getAttribute("transform"), transform(datum, i));
  });
}

/** Groups that lie in one place on this map are not told apart there, so their labels would say nothing. */
function distinct(labels) {
  const near = (a, b) => a !== b && Math.hypot(a.middle[0] - b.middle[0], a.middle[1] - b.middle[1]) < TOGETHER;
  return labels.filter((label) => !labels.some((other) => near(label, other)));
}

/** Labels that would overlap are moved up and down until they do not, and into the picture. */
function apart(labels, width, height) {
  const [half, line] = [(label) => label.text.length * 4.2, 24];
  for (let round = 0; round < 30; round++) {
    for (const [a, b] of d3.cross(labels, labels).filter(([a, b]) => a !== b && a.y <= b.y)) {
      const overlap = Math.abs(a.x - b.x) < half(a) + half(b) ? line - (b.y - a.y) : 0;
      if (overlap > 0) { a.y -= overlap / 2; b.y += overlap / 2; }
    }
  }
  for (const label of labels) {
    const margin = Math.min(half(label) + 8, width / 2);
    label.x = Math.max(margin, Math.min(width - margin, label.x));
    label.y = Math.max(16, Math.min(height - 16, label.y));
  }
}
