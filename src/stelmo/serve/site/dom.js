/** Elements, and what several views do with them. Text is never parsed, so markup in a sentence is shown as text. */

/** el("p.lede", {id: "x", onclick: f}, "text", node, [nodes]): attributes and children that are null or false are left out. */
export function el(selector, attributes = {}, ...children) {
  const [tag, ...classes] = selector.split(".");
  const node = document.createElement(tag);
  if (classes.length) node.className = classes.join(" ");
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked") node[name] = value;
    else if (isGiven(value)) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter(isGiven));
  return node;
}

const isGiven = (value) => value !== null && value !== undefined && value !== false;

let choices = 0;

/** A set of radio buttons drawn as one bar. set(value) chooses without calling onpick. */
export function choice(legend, options, onpick) {
  const name = `choice-${choices++}`;
  const inputs = options.map(([value]) =>
    el("input", { type: "radio", name, value, onchange: () => onpick(value) }));
  const labels = options.map(([, text, title], i) => el("label", { title }, inputs[i], el("span", {}, text)));
  return {
    node: el("fieldset.choice", {}, el("legend", {}, legend), el("div.bar", {}, labels)),
    set: (value) => inputs.forEach((input) => { input.checked = input.value === String(value); }),
  };
}

/** A list item: an element, a figure beside it, and a bar below them whose length is `share`, 0 … 1. */
export function barItem(what, figure, share, selector = "li") {
  const fill = el("i.fill", { "aria-hidden": "true" });
  fill.style.width = `${100 * Math.max(0, share)}%`;
  return el(selector, {}, what, el("span.figure", {}, figure), fill);
}

/** "1 use", "24,310 uses" */
export const counted = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;

/** Attributes of a text field: act is called when typing has paused for so many milliseconds, or when the field is left. */
export function whenTyped(act, milliseconds) {
  let timer = null;
  const now = () => {
    if (timer === null) return;
    clearTimeout(timer);
    timer = null;
    act();
  };
  return { oninput: () => { clearTimeout(timer); timer = setTimeout(now, milliseconds); }, onchange: now };
}

/** Whether a key is not for the page: it belongs to an input method that composes a character, or is pressed together with
    one that makes it a command of the browser, such as Alt and ← for Back. */
export const isShortcut = (event) => event.isComposing || event.ctrlKey || event.metaKey || event.altKey;

/** Whether the visitor's system allows animations. */
export const motion = () => !matchMedia("(prefers-reduced-motion: reduce)").matches;

/** Calls the frames one after the other, `stay` milliseconds apart. Resolves after the last, or when a key or a button is
    pressed or the signal is aborted. */
export function play(frames, stay, signal) {
  return new Promise((ended) => {
    let timer;
    let next = 0;
    const events = ["keydown", "pointerdown", "wheel"];
    const finish = () => {
      clearTimeout(timer);
      events.forEach((name) => removeEventListener(name, finish, true));
      signal.removeEventListener("abort", finish);
      ended();
    };
    const advance = () => {
      if (next === frames.length || signal.aborted) return finish();
      frames[next++]();
      timer = setTimeout(advance, stay);
    };
    events.forEach((name) => addEventListener(name, finish, true));
    signal.addEventListener("abort", finish);
    advance();
  });
}
