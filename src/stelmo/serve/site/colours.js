/** Clusters → colours, so that a group keeps its colour while the mix changes; uses → clusters by a column of the data. */

const NO_VALUE = "no value";
const COUNT = 8;   // --c0 … --c7 of style.css

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

/** An answer → the same with a cluster for each value of a column, the most frequent first; rare values share the last one.
    Without a column, or if the uses do not have it, the answer itself. */
export function byColumn(answer, column) {
  if (!column || !columnsOf(answer).includes(column)) return answer;
  const value = (use) => use.columns[column] || NO_VALUE;
  const sizes = d3.rollups(answer.uses, (uses) => uses.length, value).sort((a, b) => b[1] - a[1] || d3.ascending(a[0], b[0]));
  const named = (sizes.length > COUNT ? sizes.slice(0, COUNT - 1) : sizes).map(([name]) => name);
  const clusters = named.map((name) => ({ size: 0, words: [name], examples: [] }));
  if (sizes.length > COUNT) clusters.push({ size: 0, words: [`${sizes.length - named.length} other values`], examples: [] });
  const uses = answer.uses.map((use) => {
    const place = named.indexOf(value(use));
    const cluster = place < 0 ? named.length : place;
    clusters[cluster].size += 1;
    return { ...use, cluster };
  });
  return { ...answer, uses, clusters };
}

/** The columns of the data that the uses of an answer have. */
export const columnsOf = ({ uses }) => Object.keys(uses[0]?.columns ?? {});

/** Pairs of cluster and earlier colour, those that share most uses first. */
function overlaps(uses, before) {
  const known = uses.filter((use) => before.has(use.id));
  const counts = d3.flatRollup(known, (group) => group.length, (use) => use.cluster, (use) => before.get(use.id));
  return counts.sort((a, b) => b[2] - a[2]);
}
