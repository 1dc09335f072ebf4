/** A matrix of similarities → a drawing whose cells are read by pointer or arrow keys. Knows no server. */

import { el, isShortcut, motion } from "./dom.js";

const LARGEST = 64;      // pixels of a cell
const SMALLEST = 29;     // pixels of a number without its leading zero; a matrix that needs more width is scrolled sideways
const ROOMY = 36;        // pixels of a whole number
const LETTER = 8.6;      // pixels of a letter, on average
const ARROWS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };

/** onread(row, column) is called with the cell at the pointer or reached by the keys; (-1, -1): none. */
export function heatmap(onread) {
  const svg = d3.create("svg").attr("class", "heatmap").attr("tabindex", 0).attr("role", "application")
    .attr("aria-label", "Similarity of every pair of words; arrow keys move between the pairs");
  const cells = svg.append("g").attr("class", "cells");
  const rowNames = svg.append("g").attr("class", "row-names");
  const columnNames = svg.append("g").attr("class", "column-names");
  const node = el("div.heat", {}, svg.node());
  let shown = null;
  let at = [-1, -1];

  new ResizeObserver(() => shown && paint(false)).observe(node);

  function draw(content) {
    const same = shown && String([content.first, content.second]) === String([shown.first, shown.second]);
    shown = content;
    read(...(same ? at : [-1, -1]));   // the number of the cell is another one on another layer
    paint(same && motion());
  }

  function paint(glide) {
    const { first, second, similarity } = shown;
    const left = longest(first) * LETTER + 16;
    const top = longest(second) * LETTER * 0.72 + 26;
    const right = Math.max(4, Math.min(30, second.at(-1).length * LETTER * 0.72 - SMALLEST / 2 + 8));   // of the last word, which is drawn slanted
    const room = node.clientWidth - 5;   // less the padding
    const size = Math.max(SMALLEST, Math.min(LARGEST, (room - left - right) / second.length));
    const [width, height] = [left + size * second.length + right, top + size * first.length + 4];
    svg.attr("width", width).attr("height", height).attr("viewBox", `0 0 ${width} ${height}`);
    const shade = shades(similarity);
    const pairs = d3.cross(d3.range(first.length), d3.range(second.length)).map(([r, c]) => ({ r, c, value: similarity[r][c] }));
    const cell = cells.selectAll("g").data(pairs, ({ r, c }) => `${r},${c}`).join((enter) => {
      const g = enter.append("g");
      g.append("rect");
      g.append("text").attr("dy", "0.35em");
      return g;
    });
    cell.attr("transform", ({ r, c }) => `translate(${left + c * size},${top + r * size})`);
    const rect = cell.select("rect").attr("width", size - 2).attr("height", size - 2).attr("rx", 3);
    (glide ? rect.transition().duration(350) : rect.interrupt()).attr("fill-opacity", ({ value }) => shade(value).toFixed(3));
    cell.select("text").attr("x", size / 2 - 1).attr("y", size / 2 - 1)
      .text(({ value }) => (size < ROOMY ? two(value).replace("0.", ".") : two(value)));
    rowNames.selectAll("text").data(first).join("text").attr("x", left - 10).attr("y", (_, r) => top + r * size + size / 2).attr("dy", "0.35em").text((w) => w);
    columnNames.selectAll("text").data(second).join("text")
      .attr("transform", (_, c) => `translate(${left + c * size + size / 2},${top - 8}) rotate(-45)`).text((w) => w);
    mark();
  }

  function mark() {
    cells.selectAll("g").classed("active", ({ r, c }) => r === at[0] && c === at[1]);
    rowNames.selectAll("text").classed("active", (_, r) => r === at[0]);
    columnNames.selectAll("text").classed("active", (_, c) => c === at[1]);
  }

  function read(r, c) {
    at = [r, c];
    mark();
    onread(r, c);
  }

  function key(event) {
    const walk = ARROWS[event.key];
    if (!walk || !shown || isShortcut(event)) return;
    event.preventDefault();
    const clamp = (value, count) => Math.max(0, Math.min(count - 1, value));
    if (at[0] < 0) read(0, 0);
    else read(clamp(at[0] + walk[0], shown.first.length), clamp(at[1] + walk[1], shown.second.length));
  }

  cells.on("pointerover pointerdown", (event) => {
    const pair = d3.select(event.target.parentNode).datum();
    if (pair) read(pair.r, pair.c);
  });
  svg.on("pointerleave", (event) => { if (event.pointerType !== "touch") read(-1, -1); }).on("keydown", key);   // a finger leaves as it is lifted
  return { node, svg: svg.node(), draw };
}

/** With two decimals, and no minus sign before zero. */
export const two = (value) => value.toFixed(2).replace("-0.00", "0.00");

const longest = (words) => Math.min(16, d3.max(words, (word) => word.length));

/** Palest for the least similar pair of this matrix, darkest for 1: the cosines of an ELMo layer have a narrow range. */
function shades(similarity) {
  const least = Math.min(0.9, d3.min(similarity.flat()));
  return d3.scaleLinear([least, 1], [0.04, 1]).clamp(true);
}
