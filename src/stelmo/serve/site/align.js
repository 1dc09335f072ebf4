/** A map → the same map turned (and mirrored) to lie on another one. Distances stay; only needless motion goes. */

/** points and target are [[x, y], …] of the same uses in the same order. */
export function aligned(points, target) {
  const p = centred(points);
  const q = centred(target);
  const mirrored = p.map(([x, y]) => [x, -y]);
  const straight = turn(p, q);
  const flipped = turn(mirrored, q);
  return straight.gain >= flipped.gain ? rotated(p, straight.angle) : rotated(mirrored, flipped.angle);
}

function centred(points) {
  const middle = [d3.mean(points, (p) => p[0]), d3.mean(points, (p) => p[1])];
  return points.map(([x, y]) => [x - middle[0], y - middle[1]]);
}

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

function rotated(points, angle) {
  const [cos, sin] = [Math.cos(angle), Math.sin(angle)];
  return points.map(([x, y]) => [x * cos - y * sin, x * sin + y * cos]);
}
