/** Coordinates of a map → the same turned to lie on another map → places on the screen. Knows no element. */

const MARGIN = 34;
const HEAP = 0.01;      // coordinates that differ by less than this are equal: the rest is rounding to half precision
const SAME = 3;         // pixels: points closer than this would hide one another
const SPACING = 3.4;    // pixels between such points after they were spread
const GOLDEN = Math.PI * (3 - Math.sqrt(5));   // the angle from one to the next

const range = (points, axis) => d3.extent(points, (point) => point[axis]);

/** Pixels per unit, the same for both axes, with which all points fit into the box. */
function fit(points, width, height) {
  const reach = (axis) => Math.max(Number.MIN_VALUE, range(points, axis)[1] - range(points, axis)[0]);
  return Math.min((width - 2 * MARGIN) / reach(0), (height - 2 * MARGIN) / reach(1));
}

/** Whether all points are in one place, as on a layer that sees no context. */
export const allCoincide = (points) => [0, 1].every((axis) => range(points, axis)[1] - range(points, axis)[0] < HEAP);

/** Places in a box. reference: maps of the same word that set the scale, so that uses that are closer together in one mix
    than in another are drawn closer together; without it the map fills the box. */
export const places = (points, width, height, reference = []) => spread(points.map(projection(points, width, height, reference)));

/** The function that gives a point of the map its place; it applies to any further point. */
export function projection(points, width, height, reference = []) {
  const middle = [0, 1].map((axis) => d3.mean(range(points, axis)));
  const scale = allCoincide(points) ? 0 : d3.min([points, ...reference], (map) => fit(map, width, height));
  return ([x, y]) => [width / 2 + scale * (x - middle[0]), height / 2 - scale * (y - middle[1])];
}

/** Points that would hide one another are drawn in a spiral around their place. */
function spread(places) {
  const cells = d3.groups(d3.range(places.length), (i) => places[i].map((p) => Math.round(p / SAME)).join());
  const free = places.slice();
  for (const [, group] of cells) {
    group.forEach((i, n) => {
      const radius = SPACING * Math.sqrt(n);
      free[i] = [places[i][0] + radius * Math.cos(n * GOLDEN), places[i][1] + radius * Math.sin(n * GOLDEN)];
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

/** The function that turns (and mirrors) a map to lie on another one, so that points move as little as possible; distances
    stay. points and target are [[x, y], …] of the same uses in the same order; the function applies to any further point. */
export function alignment(points, target) {
  const [mx, my] = middle(points);
  const p = points.map(([x, y]) => [x - mx, y - my]);
  const [tx, ty] = middle(target);
  const q = target.map(([x, y]) => [x - tx, y - ty]);
  const straight = turn(p, q);
  const flipped = turn(p.map(([x, y]) => [x, -y]), q);
  const [angle, sign] = straight.gain >= flipped.gain ? [straight.angle, 1] : [flipped.angle, -1];
  const [cos, sin] = [Math.cos(angle), Math.sin(angle)];
  return ([x, y]) => {
    const [u, v] = [x - mx, sign * (y - my)];
    return [u * cos - v * sin, u * sin + v * cos];
  };
}

const middle = (points) => [d3.mean(points, (p) => p[0]), d3.mean(points, (p) => p[1])];

/** The rotation of p that brings it nearest to q (least squares), and by how much. */
function turn(p, q) {
  let along = 0;
  let across = 0;
  p.forEach(([x, y], i) => {
    along += x * q[i][0] + y * q[i][1];
    across += x * q[i][1] - y * q[i][0];
  });
  return { angle: Math.atan2(across, along), gain: Math.hypot(along, across) };
}
