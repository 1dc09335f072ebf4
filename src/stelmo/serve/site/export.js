/** What is shown → files: picture (SVG, PNG) and data (CSV, JSON). Knows no server. */

import { el } from "./dom.js";
import { addressed } from "./state.js";

const STYLES = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-linejoin", "stroke-dasharray", "opacity",
  "font-family", "font-size", "font-weight", "text-anchor", "dominant-baseline", "paint-order", "direction"];
const SHARPNESS = 2;   // pixels of the PNG per pixel of the screen
const LINE = 24;       // pixels of a line of text around a picture
const SHOWN = 1500;    // milliseconds for which a button says what it did
const COLOUR = /color\(srgb ([\d.e+-]+) ([\d.e+-]+) ([\d.e+-]+)(?: \/ ([\d.e+-]+))?\)/g;   // as browsers write color-mix()
const NOT_XML = /[^\t\n\r\u0020-\uD7FF\uE000-\uFFFD\u{10000}-\u{10FFFF}]/gu;

/** content() → {name, svgs: [svg], rows: [{column: value}], data: anything, picture}, called when a button is pressed;
    picture: {title, captions: one for each drawing, legend: [{colour: class, text}], credit}, all of it optional. */
export function exportBar(content) {
  const save = (label, act) => el("button.quiet", { type: "button", onclick: () => act(content()), title: `Save as ${label}` }, label);
  const pictures = [
    save("SVG", (c) => download(`${c.name}.svg`, "image/svg+xml", picture(c.svgs, c.picture).text)),
    save("PNG", async (c) => download(`${c.name}.png`, "image/png", await png(picture(c.svgs, c.picture)))),
  ];
  const data = [
    save("CSV", (c) => download(`${c.name}.csv`, "text/csv", csv(c.rows))),
    save("JSON", (c) => download(`${c.name}.json`, "application/json", JSON.stringify(c.data, null, 2))),
  ];
  const bar = el("div.export", { role: "group", "aria-label": "Save" }, el("span", {}, "Save"), pictures, data, addressed && copyButton());
  return { node: bar, show: (there, drawn = true) => {
    bar.hidden = !there;
    pictures.forEach((button) => { button.hidden = !drawn; });
  } };
}

function copyButton() {
  const button = el("button.quiet", { type: "button", onclick: async () => {
    button.textContent = await copied(location.href) ? "Copied" : "Not copied: use the address bar";
    setTimeout(() => { button.textContent = "Copy link"; }, SHOWN);
  } }, "Copy link");
  return button;
}

/** Whether the text could be copied. Browsers allow it only to pages that were loaded securely, and may ask the visitor. */
async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

export function download(name, type, content) {
  const url = URL.createObjectURL(new Blob([content], { type }));
  el("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

/** Several drawings side by side as one that needs no style sheet, with title, captions, legend and credit. */
function picture(svgs, { title = "", captions = [], legend = [], credit = "" } = {}) {
  const sizes = svgs.map((svg) => [svg.clientWidth, svg.clientHeight]);
  const width = d3.sum(sizes, (size) => size[0]);
  const [head, middle] = [(title ? LINE : 0) + (captions.length ? LINE : 0), d3.max(sizes, (size) => size[1])];
  const height = head + middle + LINE * (legend.length + (credit ? 1 : 0)) + (legend.length || credit ? 8 : 0);
  const sheet = d3.create("svg").attr("xmlns", "http://www.w3.org/2000/svg").attr("width", width).attr("height", height)
    .attr("viewBox", `0 0 ${width} ${height}`);
  sheet.append("rect").attr("width", width).attr("height", height).attr("fill", ground(svgs[0].parentNode));
  const ink = inRgb(getComputedStyle(document.body).color);
  const say = (text, x, y, weight = 400) => sheet.append("text").attr("x", x).attr("y", y).attr("fill", ink).attr("font-family", "sans-serif")
    .attr("font-size", 14).attr("font-weight", weight).text(text);
  if (title) say(title, 14, 19, 600);
  let x = 0;
  svgs.forEach((svg, i) => {
    if (captions[i]) say(captions[i], x + 14, head - 7);
    sheet.append("g").attr("transform", `translate(${x},${head})`).node().append(...[...svg.childNodes].map(styled));
    x += sizes[i][0];
  });
  legend.forEach(({ colour, text }, i) => {
    const y = head + middle + LINE * i + 12;
    sheet.append("rect").attr("x", 14).attr("y", y - 6).attr("width", 12).attr("height", 12).attr("rx", 6).attr("fill", resolved(colour));
    say(text, 34, y + 5);
  });
  if (credit) say(credit, 14, height - 9).attr("font-size", 11).attr("opacity", 0.75);
  const text = new XMLSerializer().serializeToString(sheet.node()).replace(NOT_XML, "\uFFFD");   // a corpus can contain control characters
  return { text, width, height };
}

/** A value of a style with its colours in a form that every program for SVG reads. */
export const inRgb = (value) => value.replace(COLOUR, (_, ...parts) => {
  const [r, g, b] = parts.slice(0, 3).map((part) => Math.round(255 * Math.min(1, Math.max(0, Number(part)))));
  return parts[3] === undefined ? `rgb(${r}, ${g}, ${b})` : `rgba(${r}, ${g}, ${b}, ${Number(parts[3])})`;
});

/** The colour of a group's class as it is drawn here. */
function resolved(className) {
  const probe = el(`i.swatch.${className}`);
  document.body.append(probe);
  const colour = inRgb(getComputedStyle(probe).backgroundColor);
  probe.remove();
  return colour;
}

/** The colour that shows behind an element. */
function ground(node) {
  const colour = inRgb(getComputedStyle(node).backgroundColor);
  return colour === "rgba(0, 0, 0, 0)" && node !== document.body ? ground(node.parentNode) : colour;
}

/** A copy that has its style as attributes. */
function styled(node) {
  const copy = node.cloneNode(true);
  const from = [node, ...node.querySelectorAll("*")];
  const to = [copy, ...copy.querySelectorAll("*")];
  from.forEach((original, i) => {
    const looks = getComputedStyle(original);
    STYLES.forEach((style) => to[i].setAttribute(style, inRgb(looks.getPropertyValue(style))));
    ["class", "tabindex", "role"].forEach((attribute) => to[i].removeAttribute(attribute));
  });
  return copy;
}

async function png({ text, width, height }) {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await image.decode();
  const canvas = el("canvas", { width: width * SHARPNESS, height: height * SHARPNESS });
  const context = canvas.getContext("2d");
  context.scale(SHARPNESS, SHARPNESS);
  context.drawImage(image, 0, 0);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}

/** RFC 4180; the first line names the columns. A row need not have all of them. */
export function csv(rows) {
  const cell = (value = "") => (/[",\r\n]/.test(String(value)) ? `"${String(value).replaceAll('"', '""')}"` : String(value));
  const columns = [...new Set(rows.flatMap(Object.keys))];
  return [columns, ...rows.map((row) => columns.map((column) => row[column]))]
    .map((line) => line.map(cell).join(",")).join("\r\n") + "\r\n";
}

/** The line under every picture. */
export const credits = ({ name, version, credit }) => `stelmo ${version}, model ${name}${credit ? `; ${credit}` : ""}`;
