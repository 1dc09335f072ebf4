/** Coordinates of a map → places on the screen. One scale for both axes, so that distances stay true. */

const MARGIN = 34;
const HEAP = 0.01;      // vectors that differ by less than this are the same one, but for half-precision rounding
const SAME = 3;         // pixels: points closer than this would hide one another
const SEED = 3.4;       // pixels between points that are spread out of one place
const GOLDEN = Math.PI * (3 - Math.sqrt(5));

const range = (points, axis) => d3.extent(points, (point) => point[axis]);

/** Pixels per unit with which all points fit into the box. */
function fit(points, width, height) {
  const reach = (axis) => Math.max(Number.MIN_VALUE, range(points, axis)[1] - range(points, axis)[0]);
  return Math.min((width - 2 * MARGIN) / reach(0), (height - 2 * MARGIN) / reach(1));
}

/** All points in one place, as where a layer sees no context. */
export const isHeap = (points) => [0, 1].every((axis) => range(points, axis)[1] - range(points, axis)[0] < HEAP);

/** Places in a box. reference: maps of the same word that set the scale, so that a mix that draws the uses together
    shows them together; without it the map fills the box. */
export const places = (points, width, height, reference = []) => spread(points.map(projection(points, width, height, reference)));

/** The function that gives a point of the map its place; it applies to any further point. */
export function projection(points, width, height, reference = []) {
  const middle = [0, 1].map((axis) => d3.mean(range(points, axis)));
  const scale = isHeap(points) ? 0 : d3.min([points, ...reference], (map) => fit(map, width, height));
  return ([x, y]) => [width / 2 + scale * (x - middle[0]), height / 2 - scale * (y - middle[1])];
}

/** Points that hide one another are laid out like the seeds of a sunflower around their place. */
function spread(places) {
  const cells = d3.groups(d3.range(places.length), (i) => places[i].map((p) => Math.round(p / SAME)).join());
  const free = places.slice();
  for (const [, group] of cells) {
    group.forEach((i, seed) => {
      const radius = SEED * Math.sqrt(seed);
      free[i] = [places[i][0] + radius * Math.cos(seed * GOLDEN), places[i][1] + radius * Math.sin(seed * GOLDEN)];
    });
  }
  return free;
}

/** The nearest place in the direction of an arrow key; none there → the place itself. */
export function step(places, from, [dx, dy]) {
  const [x, y] = places[from];
  const cost = ([px, py], i) => {
    const along = (px - x) * dx + (py - y) * dy;
    const across = Math.abs((px - x) * dy) + Math.abs((py - y) * dx);
    return i === from || along <= 0 || across > 2 * along ? Infinity : along + 2 * across;
  };
  const best = d3.minIndex(places, cost);
  return cost(places[best], best) === Infinity ? from : best;
}
