// The page: draws instances of drawings with d3, and handles the mouse and the keyboard.

import { drag } from "d3-drag";
import { forceCollide, forceLink, forceManyBody, forceSimulation, forceX, forceY } from "d3-force";
import { pointer, select } from "d3-selection";
import "d3-transition";
import { zoom, zoomIdentity, zoomTransform } from "d3-zoom";
import { along, curve, holders, instance, nearest, origin, place, stretch, trunks } from "./model.js";
import { heat, legend, showTip } from "./words.js";

const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const svg = select("#graph");
const tip = byId("tip");
const menu = byId("menu");

const defs = svg.append("defs");
for (const [name, color] of [["", "#333d48"], ["viewed", "dodgerblue"], ["destroyed", "red"]]) {
  defs
    .append("marker")
    .attr("id", `tip-${name}`)
    .attr("viewBox", "0 0 10 10")
    .attr("refX", 9)
    .attr("refY", 5)
    .attr("markerWidth", 8)
    .attr("markerHeight", 8)
    .attr("markerUnits", "userSpaceOnUse")
    .attr("orient", "auto")
    .append("path")
    .attr("d", "M0,0L10,5L0,10z")
    .attr("fill", color);
}
const canvas = svg.append("g");

let top = instance(data, 0);
let byTime = false;
let simulation = null;
const elements = new Map(); // path of a node or an edge -> element
const shown = new Map(); // path of a node -> [instance, node]

// --- drawing

function drawEdge(graph, edge, parent) {
  const group = parent.append("g").attr("class", `edge ${edge.effect}`).attr("data-path", edge.path);
  group.append("path").attr("class", "line").attr("marker-end", `url(#tip-${edge.effect})`);
  if (edge.label) group.append("text").text(edge.label);
  elements.set(edge.path, group);
  traceEdge(graph, edge);
}

function traceEdge(graph, edge) {
  const points = stretch(graph, edge);
  edge.points = points;
  const group = elements.get(edge.path);
  group.select("path").attr("d", curve(points));
  // The label is on the last segment, near the node that reads the value. Labels of adjacent inputs differ in height.
  const [x0, y0] = points[points.length - 2];
  const [x1, y1] = points[points.length - 1];
  const [x, y] = along(x0, y0, x1, y1, 0.4 + 0.15 * ((edge.toPort ?? 1) % 3));
  group.select("text").attr("x", x + 4).attr("y", y);
}

function traceTrunks(graph, node) {
  elements
    .get(`${node.path}t`)
    .selectAll("path")
    .data(trunks(graph, node))
    .join("path")
    .attr("class", ({ effect }) => `edge ${effect}`)
    .attr("d", ({ points }) => curve(points));
}

function paint(node, graph) {
  const color = byTime && node.box.kind === "apply" ? heat(node.box, graph.drawing) : node.box.color;
  elements.get(node.path).select(".shape").style("fill", node.inside ? null : color ?? null);
}

function drawNode(graph, node, parent) {
  const group = parent
    .append("g")
    .attr("class", `node ${node.box.kind}`)
    .attr("data-path", node.path)
    .attr("transform", `translate(${node.x},${node.y})`);
  elements.set(node.path, group);
  shown.set(node.path, [graph, node]);
  const expandable = node.box.inner !== undefined;
  group.classed("expandable", expandable).classed("open", !!node.inside);
  const { width: w, height: h } = node;
  const outline = (shrink, name) => {
    if (node.shape === "ellipse" && !node.inside) {
      group.append("ellipse").attr("rx", w / 2 - shrink).attr("ry", h / 2 - shrink).attr("class", name);
    } else {
      group
        .append("rect")
        .attr("x", -w / 2 + shrink)
        .attr("y", -h / 2 + shrink)
        .attr("width", w - 2 * shrink)
        .attr("height", h - 2 * shrink)
        .attr("rx", node.inside ? 8 : 2)
        .attr("class", name);
    }
  };
  outline(0, "shape");
  if (node.inside) {
    group.append("text").attr("class", "title").attr("x", 10 - w / 2).attr("y", 16 - h / 2).text(node.label);
    drawInside(node, group);
  } else {
    if (expandable) outline(3.5, "inner-border");
    group.append("text").text(node.label);
  }
  paint(node, graph);
  group
    .on("mouseover", (event) => {
      event.stopPropagation();
      if (!menu.hidden) return;
      showTip(tip, event, nodeFacts(graph, node));
    })
    .on("mouseout", hideTip)
    .on("click", (event) => {
      event.stopPropagation();
      markNear(graph, node);
    })
    .on("dblclick", (event) => {
      event.stopPropagation();
      event.preventDefault();
      if (expandable) toggle(node);
    })
    .on("contextmenu", (event) => {
      event.stopPropagation();
      event.preventDefault();
      openMenu(event, graph, node);
    })
    .call(
      drag()
        .on("start", (event) => {
          event.sourceEvent.stopPropagation();
          hideTip();
        })
        .on("drag", (event) => {
          node.moved = true;
          node.x += event.dx;
          node.y += event.dy;
          if (simulation && graph === top) {
            node.fx = node.x;
            node.fy = node.y;
            simulation.alpha(Math.max(simulation.alpha(), 0.3)).restart();
          }
          settle(graph, node);
        }),
    );
}

/** Draw the graph inside a box, and the lines from its inputs and outputs to the border. */
function drawInside(node, group) {
  const inner = node.inside;
  const [x, y] = origin(node);
  const frame = group.append("g").attr("transform", `translate(${x},${y})`);
  const through = frame.append("g").attr("class", "edge through");
  const line = (points) => through.append("path").attr("class", "line").attr("stroke-dasharray", "3 3").attr("d", curve(points));
  new Set(inner.drawing.inputs).forEach((i) => {
    const n = inner.nodes[i];
    line([[n.x, -node.height / 2 - y], [n.x, n.y - n.height / 2]]);
  });
  new Set(inner.drawing.outputs).forEach((i) => {
    const n = inner.nodes[i];
    line([[n.x, n.y + n.height / 2], [n.x, node.height / 2 - y]]);
  });
  drawGraph(inner, frame);
}

function drawGraph(graph, parent) {
  const edges = parent.append("g");
  const nodes = parent.append("g");
  for (const node of graph.nodes) drawNode(graph, node, nodes);
  for (const node of graph.nodes) {
    elements.set(`${node.path}t`, edges.append("g").attr("class", "trunk"));
    traceTrunks(graph, node);
  }
  for (const edge of graph.edges) drawEdge(graph, edge, edges);
}

/** Draw a node at its current position, and draw its edges again. */
function settle(graph, node) {
  elements.get(node.path).attr("transform", `translate(${node.x},${node.y})`);
  const begin = (edge) => graph.nodes[edge.from];
  for (const edge of [...node.arriving, ...node.leaving]) traceEdge(graph, edge);
  for (const other of new Set([node, ...node.arriving.map(begin)])) traceTrunks(graph, other);
}

function redraw() {
  simulation?.stop();
  simulation = null;
  const begin = performance.now();
  place(top);
  const placed = performance.now();
  elements.clear();
  shown.clear();
  canvas.selectAll("*").remove();
  drawGraph(top, canvas);
  svg.attr("data-layout-ms", Math.round(placed - begin)).attr("data-draw-ms", Math.round(performance.now() - placed));
  search.refresh();
  cull();
}

/** Open or close a box. It keeps its position on the screen. */
function toggle(node) {
  hideTip();
  const before = elements.get(node.path).node().getBoundingClientRect();
  node.inside = node.inside ? null : instance(data, node.box.inner, `${node.path}/`);
  redraw();
  const after = elements.get(node.path).node().getBoundingClientRect();
  const k = zoomTransform(svg.node()).k;
  view.translateBy(svg, (before.x + before.width / 2 - after.x - after.width / 2) / k, (before.y - after.y) / k);
}

// --- the view

const view = zoom()
  .scaleExtent([0.01, 8])
  .on("zoom", ({ transform }) => {
    canvas.attr("transform", transform);
    svg.classed("far", transform.k < 0.45).classed("farther", transform.k < 0.13);
    hideTip();
    cull();
  });
svg.call(view).on("dblclick.zoom", null);

let culling = 0;
const hidden = new WeakSet();

/** Hide elements outside the window: otherwise thousands of nodes could not be moved smoothly. */
function cull() {
  culling ||= requestAnimationFrame(() => {
    culling = 0;
    const { k, x, y } = zoomTransform(svg.node());
    const { clientWidth, clientHeight } = svg.node();
    const margin = 200 / k;
    const [x0, y0, x1, y1] = [-x / k - margin, -y / k - margin, (clientWidth - x) / k + margin, (clientHeight - y) / k + margin];
    const show = (path, left, upper, right, lower) => {
      const element = elements.get(path).node();
      const out = right < x0 || left > x1 || lower < y0 || upper > y1;
      if (out === hidden.has(element)) return;
      element.style.display = out ? "none" : "";
      hidden[out ? "add" : "delete"](element);
    };
    for (const { path, x: cx, y: cy, width, height } of top.nodes) {
      show(path, cx - width / 2, cy - height / 2, cx + width / 2, cy + height / 2);
    }
    for (const { path, points } of top.edges) {
      const xs = points.map((p) => p[0]);
      const ys = points.map((p) => p[1]);
      show(path, Math.min(...xs) - 40, Math.min(...ys), Math.max(...xs) + 40, Math.max(...ys));
    }
  });
}

function fit(duration = 300) {
  const { width, height } = svg.node().getBoundingClientRect();
  // The user may have moved nodes out of the initial area of the graph.
  let [x0, y0, x1, y1] = [0, 0, top.width, top.height];
  for (const node of top.nodes) {
    x0 = Math.min(x0, node.x - node.width / 2);
    x1 = Math.max(x1, node.x + node.width / 2);
    y0 = Math.min(y0, node.y - node.height / 2);
    y1 = Math.max(y1, node.y + node.height / 2);
  }
  const k = Math.min(1.4, (width - 40) / (x1 - x0 || 1), (height - 40) / (y1 - y0 || 1));
  const t = zoomIdentity.translate(width / 2 - (k * (x0 + x1)) / 2, height / 2 - (k * (y0 + y1)) / 2).scale(k);
  (duration ? svg.transition().duration(duration) : svg).call(view.transform, t);
}

function centre(path) {
  // A hidden element has no position in the window: show it first.
  const outermost = elements.get(path.split("/")[0]);
  outermost.style("display", null);
  hidden.delete(outermost.node());
  const box = elements.get(path).node().getBoundingClientRect();
  const frame = svg.node().getBoundingClientRect();
  const k = zoomTransform(svg.node()).k;
  if (k < 0.7) view.scaleTo(svg, 0.9, [box.x + box.width / 2 - frame.x, box.y + box.height / 2 - frame.y]);
  const now = elements.get(path).node().getBoundingClientRect();
  const scale = zoomTransform(svg.node()).k;
  view.translateBy(
    svg,
    (frame.x + frame.width / 2 - now.x - now.width / 2) / scale,
    (frame.y + frame.height / 2 - now.y - now.height / 2) / scale,
  );
}

/** Place the nodes by a simulation of forces: connected nodes attract each other, all nodes repel each other. */
function release() {
  simulation?.stop();
  for (const node of top.nodes) {
    node.home ??= node.y;
    node.moved = true;
    node.fx = node.fy = null;
  }
  for (const node of top.nodes) traceTrunks(top, node);
  const links = top.edges.map(({ from, to }) => ({ source: from, target: to }));
  simulation = forceSimulation(top.nodes)
    .force("link", forceLink(links).distance(70).strength(0.25))
    .force("charge", forceManyBody().strength(-220).distanceMax(600))
    .force("apart", forceCollide((node) => Math.max(node.width / 2, node.height / 2) * 0.8 + 4))
    .force("x", forceX(top.width / 2).strength(0.03))
    .force("rank", forceY((node) => node.home).strength(0.12))
    .on("tick", () => {
      for (const node of top.nodes) elements.get(node.path).attr("transform", `translate(${node.x},${node.y})`);
      for (const edge of top.edges) traceEdge(top, edge);
      cull();
    });
}

// --- tooltips of nodes and arrows

const nodeFacts = (graph, node) => ({ kind: "node", node, drawing: graph.drawing });
const edgeFacts = (graph, edge) => ({ kind: "edge", edge, from: graph.nodes[edge.from], to: graph.nodes[edge.to] });

// Thin lines are hard to hit. Additional wide invisible lines would have to be painted, so search for the nearest line.
svg.on("mousemove", (event) => {
  if (event.buttons || !menu.hidden) return;
  const node = event.target.closest(".node");
  if (node && !node.classList.contains("open")) return;
  const [x, y] = pointer(event, canvas.node());
  const reach = 6 / zoomTransform(svg.node()).k;
  const found = nearest(top, x, y, reach);
  if (found) showTip(tip, event, edgeFacts(...found));
  else if (!node) hideTip();
});

function hideTip() {
  tip.hidden = true;
}

/** Highlight a node and its neighbors. A second click on the node, or a click on the background, ends this. */
function markNear(graph, node) {
  closeMenu();
  const again = elements.get(node.path).classed("near");
  clearNear();
  if (again) return;
  const near = new Set([node]);
  const lines = [...node.arriving, ...node.leaving];
  for (const edge of lines) near.add(graph.nodes[edge.from]).add(graph.nodes[edge.to]);
  for (const other of graph.nodes) elements.get(other.path).classed("faded", !near.has(other));
  for (const edge of graph.edges) elements.get(edge.path).classed("faded", !lines.includes(edge)).classed("near", lines.includes(edge));
  elements.get(node.path).classed("near", true);
}

function clearNear() {
  canvas.selectAll(".near, .faded").classed("near", false).classed("faded", false);
}

svg.on("click", () => {
  clearNear();
  closeMenu();
});

// --- the context menu

function closeMenu() {
  menu.hidden = true;
  menu.replaceChildren();
}

function openMenu(event, graph, node) {
  hideTip();
  closeMenu();
  const entry = (text, action) => {
    const button = document.createElement("button");
    button.textContent = text;
    button.addEventListener("click", () => {
      closeMenu();
      action();
    });
    menu.append(button);
  };
  entry("Edit label", () => editLabel(event, node));
  if (node.box.inner !== undefined) entry(node.inside ? "Close" : "Open", () => toggle(node));
  entry("Show neighbours", () => markNear(graph, node));
  menu.hidden = false;
  menu.style.left = `${Math.min(event.clientX, innerWidth - 170)}px`;
  menu.style.top = `${Math.min(event.clientY, innerHeight - 110)}px`;
}

function editLabel(event, node) {
  const field = document.createElement("input");
  field.value = node.label;
  field.setAttribute("aria-label", "Label");
  field.addEventListener("keydown", (key) => {
    key.stopPropagation();
    if (key.key === "Enter") {
      node.label = field.value;
      elements.get(node.path).select("text").text(node.label);
    }
    if (key.key === "Enter" || key.key === "Escape") closeMenu();
  });
  menu.append(field);
  menu.hidden = false;
  field.focus();
  field.select();
}

// --- search

const search = {
  hits: [],
  at: -1,
  fits: null,

  /** Mark the drawn boxes that match the search. A closed box that contains a match is marked too, and counts once. */
  refresh() {
    const words = byId("search").value.trim().toLowerCase();
    this.hits = [];
    canvas.selectAll(".hit, .holds-hit").classed("hit", false).classed("holds-hit", false);
    byId("found").textContent = "";
    if (!words) return;
    const fits = (box) =>
      [box.label, box.text ?? "", box.type, ...(box.source ?? []).slice(0, 3)].some((part) => String(part).toLowerCase().includes(words));
    const holds = holders(data, fits);
    for (const [path, [, node]] of shown) {
      const inside = node.box.inner !== undefined && !node.inside && holds[node.box.inner];
      if (!fits(node.box) && !inside) continue;
      elements.get(path).classed(fits(node.box) ? "hit" : "holds-hit", true);
      this.hits.push(path);
    }
    byId("found").textContent = this.hits.length ? `${this.hits.length} found` : "nothing found";
  },

  go(step) {
    if (!this.hits.length) return;
    this.at = (this.at + step + this.hits.length) % this.hits.length;
    let path = this.hits[this.at];
    if (elements.get(path).classed("holds-hit")) {
      toggle(shown.get(path)[1]);
      path = this.hits.find((hit) => hit.startsWith(`${path}/`)) ?? path;
      this.at = this.hits.indexOf(path);
    }
    byId("found").textContent = `${this.at + 1} of ${this.hits.length}`;
    centre(path);
  },
};

byId("search").addEventListener("input", () => {
  search.at = -1;
  search.refresh();
});
byId("search").addEventListener("keydown", (event) => {
  if (event.key === "Enter") search.go(event.shiftKey ? -1 : 1);
  if (event.key === "Escape") {
    event.target.value = "";
    search.refresh();
    event.target.blur();
  }
});
addEventListener("keydown", (event) => {
  if (event.target.tagName === "INPUT" || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "/") {
    event.preventDefault();
    byId("search").focus();
  } else if (event.key === "f") fit();
  else if (event.key === "Escape") {
    closeMenu();
    clearNear();
  }
});

// --- buttons

byId("fit").addEventListener("click", () => fit());
byId("reset").addEventListener("click", () => {
  for (const node of top.nodes) node.home = undefined;
  redraw();
  fit();
});
byId("release").addEventListener("click", release);
byId("profile").hidden = !data.drawings.some((drawing) => drawing.profile);
byId("profile").addEventListener("click", () => {
  byTime = !byTime;
  byId("profile").setAttribute("aria-pressed", byTime);
  for (const [, [graph, node]] of shown) paint(node, graph);
  legend(byId("legend"), data, byTime);
});

legend(byId("legend"), data, byTime);
redraw();
fit(0);
if (zoomTransform(svg.node()).k < 0.4) {
  // The text would be too small to read: enlarge the graph, and begin at its top, with the inputs.
  const first = top.nodes.reduce((a, b) => (b.y < a.y ? b : a));
  const k = Math.max(0.6, zoomTransform(svg.node()).k);
  svg.call(view.transform, zoomIdentity.translate(svg.node().clientWidth / 2 - k * first.x, 60 - k * first.y).scale(k));
}
byId("summary").textContent = summary();
svg.attr("data-ready", "yes");

function summary() {
  const { boxes, arrows, profile } = data.drawings[0];
  const ops = boxes.filter((box) => box.kind === "apply").length;
  let text = `${ops.toLocaleString("en")} ops, ${(boxes.length - ops).toLocaleString("en")} variables, ${arrows.length.toLocaleString("en")} arrows`;
  if (profile) text += ` · ${(profile.seconds * 1e3).toPrecision(3)} ms in ${profile.calls.toLocaleString("en")} calls`;
  return text;
}
