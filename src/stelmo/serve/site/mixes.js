/** Weights of the layers ↔ their name in the address.   "2" · "mean" · "0.2,0.5,0.3" */

const LEAST = 0.005;   // shares that differ by less are the same
export const [SMALLEST, LARGEST] = [0.1, 3];   // γ

export const single = (count, layer) => Array.from({ length: count }, (_, l) => (l === layer ? 1 : 0));
export const mean = (count) => Array.from({ length: count }, () => 1 / count);

/** The mix in the address, as weights that sum to 1; anything invalid gives the top layer. */
export function parse(text, count) {
  if (text === "mean") return mean(count);
  const numbers = (text ?? "").split(",").map(Number);
  if (text && numbers.length === 1 && Number.isInteger(numbers[0]) && numbers[0] >= 0 && numbers[0] < count) {
    return single(count, numbers[0]);
  }
  const total = numbers.reduce((sum, share) => sum + share, 0);
  const sound = numbers.length === count && numbers.every((share) => share >= 0) && total > 0;
  return sound ? numbers.map((share) => share / total) : single(count, count - 1);
}

/** The shortest name of these weights. */
export function name(weights) {
  const top = weights.findIndex((share) => share > 1 - LEAST);
  if (top >= 0) return String(top);
  if (weights.every((share) => Math.abs(share - 1 / weights.length) < LEAST)) return "mean";
  return weights.map((share) => Number(share.toFixed(3))).join(",");
}

/** One share set by hand; the others keep their proportions and fill the rest. */
export function withShare(weights, layer, share) {
  const others = weights.reduce((sum, w, l) => (l === layer ? sum : sum + w), 0);
  const rest = 1 - share;
  return weights.map((w, l) => {
    if (l === layer) return share;
    return others > 0 ? (w / others) * rest : rest / (weights.length - 1);
  });
}

/** γ of the address, within the bounds of its slider. */
export function parseGamma(text) {
  const gamma = Number(text ?? 1);
  return gamma > 0 ? Math.min(LARGEST, Math.max(SMALLEST, gamma)) : 1;
}

/** An explanation of these weights. */
export function story(weights) {
  const known = name(weights);
  const top = weights.length - 1;
  if (known === "0") return "Layer 0 depends only on the letters of the word, not on its context, so all uses with the same spelling coincide.";
  if (known === String(top)) return "The top layer has read the whole sentence in both directions.";
  if (known === "mean") return "The mean of all layers: spelling, grammar and meaning together.";
  if (/^\d+$/.test(known)) return `Layer ${known} has read the sentence. It represents mostly grammar, such as the part of speech of the word.`;
  return "A mix of your own. Move a slider to see what each layer contributes.";
}

/** These weights as the title of a picture. */
export function title(weights) {
  const known = name(weights);
  if (known === "mean") return "Mean of all layers";
  return /^\d+$/.test(known) ? `Layer ${known}` : `Mix of layers ${known.split(",").map((share, layer) => `${layer}: ${share}`).join(", ")}`;
}
