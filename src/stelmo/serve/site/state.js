/** The address ↔ what is shown. Knows no view.   #meanings?word=bank&mix=2 */

/** The view and its parameters, all strings. */
export function read() {
  const [view, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  return { view: view || "meanings", params: Object.fromEntries(new URLSearchParams(query)) };
}

/** The address of a view; parameters that are null or empty are left out. */
export function link(view, params = {}) {
  const kept = Object.entries(params).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const query = new URLSearchParams(kept.map(([key, value]) => [key, String(value)])).toString();
  return `#${view}${query && "?"}${query.replaceAll("%2C", ",")}`;
}

/** Puts a view into the address: a step to go back to, or (while something is dragged) the same step again. */
export function write(view, params, { step = true } = {}) {
  const address = link(view, params);
  if (address === location.hash) return;
  history[step ? "pushState" : "replaceState"](null, "", address);
}
