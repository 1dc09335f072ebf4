/** Groups on a map → the places of their labels, which never cover a point, and their outlines. Knows no element. */

const [STEP_X, STEP_Y] = [14, 10];   // pixels between the places that are tried
const LINE = 22;                     // height of a label
const DOT = 7;                       // radius of a point, with a little space
const NEARBY = 190;                  // pixels from the middle of its group beyond which a shorter label is preferred
const TOGETHER = 14;                 // pixels between the middles of two groups that cannot be told apart on the map
const BANDWIDTH = 20;                // pixels over which a point counts for the outline of its group
const EDGE = 0.2;                    // the outline is where the density is this share of the greatest

/** groups: [{cluster, words, spots}]; all spots of the map → [{cluster, text, x, y}] with (x, y) in the middle of the label.
    letter: width of a letter. A group for which there is no free place gets no label; its card shows it. */
export function placeLabels(groups, spots, width, height, letter) {
  const middled = groups.filter(({ words, spots: own }) => words.length && own.length)
    .map((group) => ({ ...group, middle: [0, 1].map((axis) => d3.median(group.spots, (p) => p[axis])) }));
  const placed = [];
  for (const { cluster, words, middle } of distinct(middled)) {
    const texts = d3.range(words.length, 0, -1).map((count) => words.slice(0, count).join(" · "));
    const tries = [...texts.map((text) => [text, NEARBY]), ...texts.map((text) => [text, Infinity])];
    for (const [text, reach] of tries) {
      const half = text.length * letter / 2 + 4;
      const spot = freeSpot(half, middle, reach, spots, placed, width, height);
      if (!spot) continue;
      placed.push({ cluster, text, x: spot[0], y: spot[1], half });
      break;
    }
  }
  return placed;
}

/** The place nearest to the middle of the group where neither a point nor another label is. */
function freeSpot(half, [mx, my], reach, spots, placed, width, height) {
  if (2 * half > width) return null;
  const tries = d3.cross(d3.range(half, width - half + 1, STEP_X), d3.range(LINE / 2 + 2, height - LINE / 2, STEP_Y))
    .map(([x, y]) => ({ x, y, away: Math.hypot(x - mx, 1.6 * (y - my)) })).filter(({ away }) => away < reach)
    .sort((a, b) => a.away - b.away);
  const free = tries.find(({ x, y }) =>
    !spots.some((p) => Math.abs(p[0] - x) < half + DOT && Math.abs(p[1] - y) < LINE / 2 + DOT)
    && !placed.some((other) => Math.abs(other.x - x) < half + other.half && Math.abs(other.y - y) < LINE));
  return free ? [free.x, free.y] : null;
}

/** The groups that do not share their place on this map with another one: there the labels would say nothing. */
function distinct(groups) {
  const near = (a, b) => a !== b && Math.hypot(a.middle[0] - b.middle[0], a.middle[1] - b.middle[1]) < TOGETHER;
  return groups.filter((group) => !groups.some((other) => near(group, other)));
}

/** The outline of where a group is dense, as the d of a path; "" for a group of a few points. */
export function outline(spots, width, height) {
  if (spots.length < 4) return "";
  const contour = d3.contourDensity().x((p) => p[0]).y((p) => p[1]).size([width, height]).cellSize(4).bandwidth(BANDWIDTH).contours(spots);
  return d3.geoPath()(contour(contour.max * EDGE)) ?? "";
}
