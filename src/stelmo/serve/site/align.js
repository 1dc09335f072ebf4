/** A map → the same map turned (and mirrored) to lie on another one. Distances stay; only needless motion goes. */

/** points and target are [[x, y], …] of the same uses in the same order. */
export const aligned = (points, target) => points.map(alignment(points, target));

/** The function that turns the points; it applies to any further point of the same map. */
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

/** The rotation of p that brings it nearest to q (least squares), and how much it brings. */
function turn(p, q) {
  let along = 0;
  let across = 0;
  p.forEach(([x, y], i) => {
    along += x * q[i][0] + y * q[i][1];
    across += x * q[i][1] - y * q[i][0];
  });
  return { angle: Math.atan2(across, along), gain: Math.hypot(along, across) };
}
