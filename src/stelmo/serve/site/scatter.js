/** Uses with places, groups and labels → the map of one mix, which can be zoomed and selected from. Knows no server. */

import { el, isShortcut, motion } from "./dom.js";
import { outline, placeLabels } from "./labels.js";
import { places, projection, step } from "./layout.js";
import { plain, sentence } from "./sentence.js";

const REACH = 30;        // pixels from the pointer within which the nearest point is the one pointed at
const GLIDE = 700;       // milliseconds of a move between layers
const FOLLOW = 160;      // and while a slider is dragged
const FARTHEST = 12;     // greatest magnification
const EDGE = 14;         // pixels from the edge at which the visitor's sentence is drawn if its place is outside the map
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const STAR = d3.symbol(d3.symbolStar, 260)();

/** onhover(id or null, whether with its sentence), onpick(id or null) and onselect([ids]) are called; they change nothing
    here: highlight, pick, light, keep and dim do. */
export function scatter(name, onhover, onpick, onselect) {
  const svg = d3.create("svg").attr("class", "scatter").attr("role", "listbox").attr("tabindex", 0);
  const [outlines, links] = ["outlines", "links"].map((kind) => svg.append("g").attr("class", kind).attr("aria-hidden", "true"));
  const dots = svg.append("g").attr("class", "dots").attr("role", "presentation");
  const star = svg.append("path").attr("class", "own").attr("aria-hidden", "true");
  const names = svg.append("g").attr("class", "names").attr("aria-hidden", "true");
  const lasso = svg.append("path").attr("class", "lasso").attr("aria-hidden", "true");
  const card = el("div.card", { hidden: true, "aria-hidden": "true" });
  const caption = el("p.caption", { hidden: true, "aria-hidden": "true" });
  const node = el("div.canvas", {}, svg.node(), caption, card);
  const optionId = (use) => `${name}-${use.id}`;
  let shown = { uses: [], points: [], colours: [], labels: [], reference: [], word: "", own: null };
  let [spots, ownSpot] = [[], null];
  let [active, picked, dimmed, kept] = [null, null, null, null];
  let lit = { from: null, ids: [] };   // the nearest uses of a use, or of the visitor's sentence ("own")
  let view = d3.zoomIdentity;
  let trace = null;                    // the line drawn around points, while it is drawn

  const zoom = d3.zoom().scaleExtent([1, FARTHEST]).filter(zooms).on("zoom", ({ transform }) => {
    view = transform;
    svg.classed("zoomed", view.k > 1);
    buttons.whole.hidden = view.k <= 1;
    paint(0);
  });
  const by = (factor) => () => svg.call(zoom.scaleBy, factor);
  const tool = (sign, title, act) => el("button.tool", { type: "button", title, "aria-label": title, onclick: act }, sign);
  const buttons = {
    select: tool("Select", "Select points: draw a line around them (or hold Shift)", () => selecting(!isSelecting())),
    whole: tool("⤢", "Show the whole map", () => svg.call(zoom.transform, d3.zoomIdentity)),
    out: tool("−", "Zoom out", by(1 / 1.6)),
    in: tool("+", "Zoom in (Ctrl and the wheel)", by(1.6)),
  };
  buttons.whole.hidden = true;
  const tools = el("div.tools", { role: "group", "aria-label": "Map" }, Object.values(buttons));
  const isSelecting = () => buttons.select.getAttribute("aria-pressed") === "true";
  const selecting = (on) => { buttons.select.setAttribute("aria-pressed", String(on)); svg.classed("selecting", on); };
  selecting(false);

  new ResizeObserver(() => shown.uses.length && paint(0)).observe(node);

  /** The wheel alone scrolls the page; a finger scrolls it unless the map is enlarged. */
  function zooms(event) {
    if (event.type === "wheel") return event.ctrlKey || event.metaKey;
    return view.k > 1 && !event.button && !event.shiftKey && !isSelecting();
  }

  function draw(content, { dragging = false, duration = GLIDE } = {}) {
    const same = content.word === shown.word;
    shown = content;
    if (!same) svg.call(zoom.transform, d3.zoomIdentity);
    svg.attr("aria-label", `${content.uses.length} uses of ${content.word}; arrow keys move between them, Enter chooses one`);
    if (!content.uses.some((use) => use.id === active)) highlight(null);
    paint(!motion() || document.hidden ? 0 : dragging ? FOLLOW : same ? duration : 0, dragging);
  }

  function paint(duration, dragging = false) {
    const [width, height] = [node.clientWidth, node.clientHeight];
    if (!width || !height || !shown.uses.length) return;
    svg.attr("viewBox", `0 0 ${width} ${height}`);
    zoom.extent([[0, 0], [width, height]]).translateExtent([[0, 0], [width, height]]);
    spots = places(shown.points, width, height, shown.reference).map((p) => view.apply(p));
    const inside = (value, most) => Math.max(EDGE, Math.min(most - EDGE, value));
    ownSpot = shown.own && view.apply(projection(shown.points, width, height, shown.reference)(shown.own.point));
    if (ownSpot) ownSpot = [inside(ownSpot[0], width), inside(ownSpot[1], height)];
    const spot = (_, i) => at(spots[i]);
    const dot = dots.selectAll("g").data(shown.uses, (use) => use.id)
      .join((enter) => enter.append("g").attr("role", "option").attr("transform", spot).call((g) => g.append("circle").attr("r", 5.5)))
      .attr("id", optionId)
      .attr("class", (use) => `dot c${shown.colours[use.cluster]}`)
      .attr("aria-label", (use) => plain(use.tokens));
    const appears = ownSpot && !star.attr("d");
    star.attr("d", ownSpot ? STAR : null);
    mark();
    glide(dot, spot, duration);
    if (ownSpot) glide(star, () => at(ownSpot), appears ? 0 : duration);
    paintGroups(width, height, duration, dragging);
    paintLinks(duration);
  }

  function paintGroups(width, height, duration, dragging) {
    const groups = shown.labels.map((words, cluster) => ({ cluster, words, spots: spots.filter((_, i) => shown.uses[i].cluster === cluster) }));
    const letter = width < 560 ? 8 : 8.9;   // as in views.css
    const texts = dragging ? [] : placeLabels(groups, ownSpot ? [...spots, ownSpot] : spots, width, height, letter);
    const text = names.selectAll("text").data(texts, (label) => shown.colours[label.cluster]).join("text").attr("dy", "0.35em")
      .attr("class", (label) => `name c${shown.colours[label.cluster]}`)
      .attr("transform", (label) => at([label.x, label.y]))
      .text((label) => label.text);
    const shape = outlines.selectAll("path").data(dragging ? [] : groups, ({ cluster }) => shown.colours[cluster]).join("path")
      .attr("class", ({ cluster }) => `outline c${shown.colours[cluster]}`)
      .attr("d", ({ spots: own }) => outline(own, width, height));
    for (const drawn of [text, shape]) {   // they appear when the points have arrived
      drawn.interrupt().attr("opacity", duration ? 0 : null);
      if (duration) drawn.transition().delay(duration).duration(250).attr("opacity", 1);
    }
    mark();
  }

  function paintLinks(duration) {
    const spotOf = new Map(shown.uses.map((use, i) => [use.id, spots[i]]));
    const from = lit.from === "own" ? ownSpot : spotOf.get(lit.from);
    const ends = from ? lit.ids.map((id) => spotOf.get(id)).filter(Boolean) : [];
    links.selectAll("line").data(ends).join("line").attr("x1", from?.[0]).attr("y1", from?.[1]).attr("x2", (p) => p[0]).attr("y2", (p) => p[1]);
    links.interrupt().attr("opacity", duration ? 0 : null);
    if (duration) links.transition().delay(duration).duration(250).attr("opacity", 1);
  }

  function mark() {
    const near = new Set(lit.ids);
    const faint = (use) => use.id !== active && use.id !== picked && !near.has(use.id)
      && ((dimmed !== null && use.cluster !== dimmed) || (kept !== null && !kept.has(use.id)) || near.size > 0);
    dots.selectAll("g")
      .classed("active", (use) => use.id === active)
      .classed("picked", (use) => use.id === picked)
      .classed("lit", (use) => near.has(use.id))
      .classed("kept", (use) => kept !== null && kept.has(use.id))
      .classed("faint", faint)
      .attr("aria-selected", (use) => String(use.id === picked));
    for (const drawn of [names.selectAll("text"), outlines.selectAll("path")]) {
      drawn.classed("faint", ({ cluster }) => dimmed !== null && cluster !== dimmed);
    }
    dots.selectAll(".lit, .picked, .active").raise();
  }

  /** Shows a use: a ring in every map, its sentence where the pointer or the keys are. */
  function highlight(id, withCard = false) {
    active = id;
    mark();
    const i = shown.uses.findIndex((use) => use.id === id);
    card.hidden = i < 0 || !withCard;
    if (i < 0) svg.attr("aria-activedescendant", null);
    else svg.attr("aria-activedescendant", optionId(shown.uses[i]));
    if (!card.hidden) showCard(i);
  }

  function showCard(i) {
    const [x, y] = spots[i];
    card.className = `card c${shown.colours[shown.uses[i].cluster]}`;
    card.replaceChildren(sentence(shown.uses[i].tokens, shown.uses[i].position));
    const free = node.clientWidth - card.offsetWidth;
    card.style.left = `${Math.max(0, Math.min(free, x - card.offsetWidth / 2))}px`;
    card.style.top = y > node.clientHeight / 2 ? `${y - card.offsetHeight - 14}px` : `${y + 14}px`;
  }

  /** The use at the pointer, or null. */
  const under = (event) => {
    if (!spots.length) return null;
    const [x, y] = d3.pointer(event, svg.node());
    const i = d3.Delaunay.from(spots).find(x, y);
    return Math.hypot(spots[i][0] - x, spots[i][1] - y) < REACH ? shown.uses[i].id : null;
  };

  function key(event) {
    if (isShortcut(event)) return;
    const at = shown.uses.findIndex((use) => use.id === active);
    const walk = ARROWS[event.key];
    if (walk && spots.length) onhover(shown.uses[at < 0 ? 0 : step(spots, at, walk)].id, true);
    else if (event.key === "Enter" || event.key === " ") onpick(active);
    else if (event.key === "Escape") { onpick(null); onhover(null); }
    else if (event.key === "+" || event.key === "-") by(event.key === "+" ? 1.6 : 1 / 1.6)();
    else if (event.key === "0") buttons.whole.click();
    else return;
    event.preventDefault();
  }

  /** Draws a line around points while the pointer is down. Returns whether it does. */
  function encircle(event) {
    if (event.type === "pointerdown" && event.isPrimary && (isSelecting() || event.shiftKey)) {
      trace = [];
      svg.node().setPointerCapture(event.pointerId);
      onhover(null);
    }
    if (!trace) return false;
    trace.push(d3.pointer(event, svg.node()));
    lasso.attr("d", `${d3.line()(trace)}Z`);
    return true;
  }

  /** The pointer was lifted: the points inside the line are selected, and the click that follows chooses none. */
  function encircled() {
    if (!trace) return;
    const inside = shown.uses.filter((_, i) => d3.polygonContains(trace, spots[i])).map((use) => use.id);
    const drawn = trace.length > 3;
    trace = null;
    lasso.attr("d", null);
    if (!drawn) return;
    onselect(inside);
    svg.on("click.encircled", (event) => event.stopImmediatePropagation(), { capture: true });
    setTimeout(() => svg.on("click.encircled", null), 50);
  }

  svg.call(zoom).on("dblclick.zoom", null)
    .on("pointermove pointerdown", (event) => {
      if (encircle(event)) return;
      const id = under(event);
      if (id !== active || (id !== null && card.hidden)) onhover(id, event.pointerType !== "touch");
    })
    .on("pointerup pointercancel", encircled)
    .on("pointerleave", () => onhover(null))
    .on("click", (event) => onpick(under(event)))
    .on("keydown", key)
    .on("blur", () => onhover(null));

  return {
    node, tools, svg: svg.node(), draw, highlight,
    pick: (id) => { picked = id; mark(); },
    light: (from, ids) => { lit = { from, ids }; mark(); paintLinks(0); },
    keep: (ids) => { kept = ids && new Set(ids); mark(); },
    dim: (cluster) => { dimmed = cluster; mark(); },
    say: (text) => { caption.textContent = text; caption.hidden = !text; },
  };
}

/** A place as a transform, to a tenth of a pixel. */
const at = (spot) => `translate(${spot.map((p) => Math.round(10 * p) / 10)})`;

/** Moves elements to where the transform says, over so many milliseconds. Strings are interpolated because d3 would
    otherwise compute a matrix for every element, which is slow. */
function glide(selection, transform, duration) {
  if (!duration) selection.interrupt().attr("transform", transform);
  else selection.transition().duration(duration).ease(d3.easeCubicOut).attrTween("transform", function (datum, i) {
    return d3.interpolateString(this.getAttribute("transform"), transform(datum, i));
  });
}
