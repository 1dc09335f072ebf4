/** The address ↔ what is shown, and what the browser stores. Knows no view.   #meanings?word=bank&mix=2 */

/** Whether the page has an address of its own; a cell of a notebook does not. */
export const addressed = location.protocol !== "about:";

/** The view and its parameters, all strings. */
export function read() {
  const [, view, query] = /^#?\/?([^?]*)\??(.*)$/s.exec(location.hash);
  return { view: view || "meanings", params: Object.fromEntries(new URLSearchParams(query)) };
}

/** The parameters that have a value: those that are null or empty are not in the address. */
export const given = (params) =>
  Object.fromEntries(Object.entries(params).filter(([, value]) => value !== null && value !== undefined && value !== ""));

/** The address of a view. */
export function link(view, params = {}) {
  const query = new URLSearchParams(given(params)).toString();
  return `#${view}${query && "?"}${query.replaceAll("%2C", ",")}`;
}

/** Puts a view into the address: as a new step of the history, or (while something is typed or dragged) in place of the last. */
export function write(view, params, { step = true } = {}) {
  const address = link(view, params);
  if (address === location.hash) return;
  history[step ? "pushState" : "replaceState"](null, "", address);
}

/** A stored value, or null. where: "localStorage" for this browser, "sessionStorage" for this tab. */
export function recall(where, key) {
  try {
    return window[where].getItem(key);
  } catch {
    return null;   // storage is blocked, or the file was opened without an origin
  }
}

/** Stores a value where the browser allows it. */
export function remember(where, key, value) {
  try {
    window[where].setItem(key, value);
  } catch {
    // the page works without it
  }
}
