/** Clusters → colours, so that a group that stays keeps its colour while the mix moves. */

export const COUNT = 8;   // --c0 … --c7 of style.css

/** uses with their cluster, and the colour that each use (by id) had before → the colour of each cluster. */
export function colours(uses, count, before) {
  const given = new Array(count).fill(null);
  const taken = new Set();
  for (const [cluster, colour] of overlaps(uses, before)) {
    if (given[cluster] !== null || taken.has(colour)) continue;
    given[cluster] = colour;
    taken.add(colour);
  }
  const free = d3.range(COUNT).filter((colour) => !taken.has(colour));
  return given.map((colour, cluster) => colour ?? free.shift() ?? cluster % COUNT);
}

/** Pairs of cluster and earlier colour, those that share most uses first. */
function overlaps(uses, before) {
  const known = uses.filter((use) => before.has(use.id));
  const counts = d3.flatRollup(known, (group) => group.length, (use) => use.cluster, (use) => before.get(use.id));
  return counts.sort((a, b) => b[2] - a[2]);
}
