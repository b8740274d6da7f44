// The model of the page: instances of drawings. Each open box has a separate instance of the drawing inside it.

import { layout } from "./layout.js";

const PADDING = 18;
const TITLE = 26;
const measure = document.createElement("canvas").getContext("2d");
measure.font = '12px system-ui, "Segoe UI", Helvetica, Arial, sans-serif';

function size(node) {
  const ellipse = node.shape === "ellipse";
  node.width = Math.max(38, measure.measureText(node.label).width * (ellipse ? 1.12 : 1) + (ellipse ? 26 : 18));
  node.height = ellipse ? 32 : 26;
}

/** Return an instance of a drawing in which all boxes are closed. */
export function instance(data, number, path = "") {
  const drawing = data.drawings[number];
  const nodes = drawing.boxes.map((box, i) => ({
    box,
    path: path + i,
    label: box.label,
    shape: data.shapes[box.kind === "apply" || box.kind === "output" ? box.kind : "input"],
    inside: null,
    arriving: [],
    leaving: [],
  }));
  const edges = drawing.arrows.map(([from, to, fromPort, toPort, label, effect], i) => {
    const edge = { from, to, fromPort, toPort, label, effect, path: `${path}e${i}`, via: [], last: [] };
    nodes[from].leaving.push(edge);
    nodes[to].arriving.push(edge);
    return edge;
  });
  return { data, number, drawing, nodes, edges, width: 0, height: 0 };
}

/** Lay out an instance, after the instances inside its open boxes. */
export function place(graph) {
  for (const node of graph.nodes) {
    if (node.inside) {
      place(node.inside);
      node.width = Math.max(node.inside.width, 120) + 2 * PADDING;
      node.height = node.inside.height + 2 * PADDING + TITLE;
    } else size(node);
    node.moved = false;
  }
  Object.assign(graph, layout(graph.nodes, graph.edges));
}

/** Return the origin of the drawing inside an open box, relative to the center of the box. */
export function origin(node) {
  return [-node.inside.width / 2, -node.height / 2 + PADDING + TITLE];
}

function height(node, dx) {
  const { width: w, height: h } = node;
  if (node.inside || node.shape !== "ellipse") return h / 2;
  return (h / 2) * Math.sqrt(Math.max(0, 1 - (2 * dx / w) ** 2));
}

function spread(node, port, ports) {
  if (port === null || ports < 2) return 0;
  return (port - (ports - 1) / 2) * Math.min(16, (node.width * 0.7) / (ports - 1));
}

/** Return the point at which an edge leaves its first node. */
export function start(graph, edge) {
  const node = graph.nodes[edge.from];
  let dx = 0;
  if (node.inside && edge.fromPort !== null && edge.fromPort < node.inside.drawing.outputs.length) {
    dx = origin(node)[0] + node.inside.nodes[node.inside.drawing.outputs[edge.fromPort]].x;
  }
  return [node.x + dx, node.y + height(node, dx)];
}

/** Return the point at which an edge reaches its last node. */
export function end(graph, edge) {
  const node = graph.nodes[edge.to];
  let dx = spread(node, edge.toPort, node.arriving.length);
  if (node.inside && edge.toPort !== null && edge.toPort < node.inside.drawing.inputs.length) {
    dx = origin(node)[0] + node.inside.nodes[node.inside.drawing.inputs[edge.toPort]].x;
  }
  return [node.x + dx, node.y - height(node, dx) - 1];
}

/** Return the path of a smooth line through points, vertical at each of them. */
export function curve(points) {
  let text = `M${points[0][0]},${points[0][1]}`;
  for (let i = 1; i < points.length; i++) {
    const [x0, y0] = points[i - 1];
    const [x1, y1] = points[i];
    if (x0 === x1) text += `L${x1},${y1}`;
    else {
      const bend = Math.max(Math.abs(y1 - y0) / 2, 12);
      text += `C${x0},${y0 + bend} ${x1},${y1 - bend} ${x1},${y1}`;
    }
  }
  return text;
}

/** Return a point of the line that `curve` draws between two points; t is 0 at the first and 1 at the second. */
export function along(x0, y0, x1, y1, t) {
  const bend = x0 === x1 ? 0 : Math.max(Math.abs(y1 - y0) / 2, 12);
  const [a, b, c, d] = [(1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t ** 3];
  return [(a + b) * x0 + (c + d) * x1, a * y0 + b * (y0 + bend) + c * (y1 - bend) + d * y1];
}

const moved = (graph, edge) => graph.nodes[edge.from].moved || graph.nodes[edge.to].moved;

/** Return the points of an edge after it leaves the trunk. If one of its nodes was moved, the edge is a direct line. */
export function stretch(graph, edge) {
  if (moved(graph, edge)) return [start(graph, edge), end(graph, edge)];
  return [edge.via[edge.via.length - 1] ?? start(graph, edge), ...edge.last, end(graph, edge)];
}

/** Return the trunks of a node, which its edges share: [{points, effect}], one for each point at which edges leave. */
export function trunks(graph, node) {
  const found = new Map();
  for (const edge of node.leaving) {
    if (!edge.via.length || moved(graph, edge)) continue;
    const from = start(graph, edge);
    const known = found.get(from[0]);
    if (!known) found.set(from[0], { points: [from, ...edge.via], effect: edge.effect });
    else {
      if (known.points.length <= edge.via.length) known.points = [from, ...edge.via];
      if (known.effect !== edge.effect) known.effect = "";
    }
  }
  return [...found.values()];
}

const STEPS = 8;

/** Return the edge that is nearest to a point as [instance, edge], or null if none is within the distance `reach`. */
export function nearest(graph, x, y, reach) {
  for (const node of graph.nodes) {
    if (!node.inside || Math.abs(x - node.x) > node.width / 2 || Math.abs(y - node.y) > node.height / 2) continue;
    const [dx, dy] = origin(node);
    return nearest(node.inside, x - node.x - dx, y - node.y - dy, reach);
  }
  let found = null;
  let least = reach;
  for (const edge of graph.edges) {
    for (let i = 1; i < edge.points.length; i++) {
      const [x0, y0] = edge.points[i - 1];
      const [x1, y1] = edge.points[i];
      if (x < Math.min(x0, x1) - reach || x > Math.max(x0, x1) + reach) continue;
      if (y < Math.min(y0, y1) - reach - 12 || y > Math.max(y0, y1) + reach + 12) continue;
      let [px, py] = [x0, y0];
      for (let k = 1; k <= STEPS; k++) {
        const [qx, qy] = along(x0, y0, x1, y1, k / STEPS);
        const length = (qx - px) ** 2 + (qy - py) ** 2 || 1;
        const t = Math.max(0, Math.min(1, ((x - px) * (qx - px) + (y - py) * (qy - py)) / length));
        const far = Math.hypot(x - px - t * (qx - px), y - py - t * (qy - py));
        if (far < least) {
          least = far;
          found = [graph, edge];
        }
        [px, py] = [qx, qy];
      }
    }
  }
  return found;
}

/** Return for each drawing whether it, or a drawing inside it, contains a box that `fits`: index -> boolean. */
export function holders(data, fits) {
  const found = data.drawings.map((drawing) => drawing.boxes.some(fits));
  // Inner drawings come after the drawings that contain them.
  for (let i = data.drawings.length - 1; i >= 0; i--) {
    found[i] ||= data.drawings[i].boxes.some((box) => box.inner !== undefined && found[box.inner]);
  }
  return found;
}
