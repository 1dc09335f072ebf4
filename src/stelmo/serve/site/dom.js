/** Words → elements. Text is set as text and never parsed, so that markup in a sentence shows as what it is. */

/** el("p.lede", {id: "x", onclick: f}, "text", node, [nodes]): attributes that are null or false are left out. */
export function el(selector, attributes = {}, ...children) {
  const [tag, ...classes] = selector.split(".");
  const node = document.createElement(tag);
  if (classes.length) node.className = classes.join(" ");
  for (const [name, value] of Object.entries(attributes)) set(node, name, value);
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

function set(node, name, value) {
  if (typeof value === "function") node.addEventListener(name.slice(2), value);
  else if (name === "value" || name === "checked") node[name] = value;
  else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
}

/** A set of radio buttons drawn as one bar. set(value) chooses without a call of onpick. */
export function choice(legend, options, onpick) {
  const name = `choice-${(choice.count = (choice.count ?? 0) + 1)}`;
  const inputs = options.map(([value]) =>
    el("input", { type: "radio", name, value, onchange: () => onpick(value) }));
  const labels = options.map(([, text, title], i) => el("label", { title }, inputs[i], el("span", {}, text)));
  return {
    node: el("fieldset.choice", {}, el("legend", {}, legend), el("div.bar", {}, labels)),
    set: (value) => inputs.forEach((input) => { input.checked = input.value === String(value); }),
  };
}

export const motion = () => !matchMedia("(prefers-reduced-motion: reduce)").matches;
