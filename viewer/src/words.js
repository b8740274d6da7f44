// Texts of the page: the tooltips of nodes and arrows, and the legend. Also the colors that show times.

const duration = (seconds) => {
  if (seconds >= 1) return `${seconds.toPrecision(4)} s`;
  if (seconds >= 1e-3) return `${(seconds * 1e3).toPrecision(4)} ms`;
  return `${(seconds * 1e6).toPrecision(4)} µs`;
};

/** Return the color for the time of a node: light for no time, red for the most time in its drawing. */
export function heat(box, drawing) {
  if (!drawing.profile || box.seconds === undefined) return "#ffffff";
  const most = drawing.most ?? (drawing.most = Math.max(...drawing.boxes.map((other) => other.seconds ?? 0)) || 1);
  const share = box.seconds / most;
  const [low, high, at] = share < 0.5 ? [[255, 247, 236], [253, 187, 132], share * 2] : [[253, 187, 132], [215, 48, 31], share * 2 - 1];
  return `rgb(${low.map((a, i) => Math.round(a + (high[i] - a) * at)).join(",")})`;
}

const KINDS = {
  apply: "Op",
  input: "Input",
  shared_input: "Shared variable",
  constant_input: "Constant",
  output: "Output",
  unused: "Unused variable",
  variable: "Variable",
};

function nodeRows({ node, drawing }) {
  const { box } = node;
  const rows = [];
  if (box.kind === "apply") {
    if (box.text) rows.push(["Op", box.text]);
    rows.push(["Class", box.type]);
    if (box.seconds !== undefined) {
      const share = drawing.profile.nodes ? ((100 * box.seconds) / drawing.profile.nodes).toFixed(1) : "0";
      rows.push(["Time", `${duration(box.seconds)}, ${share} % of all nodes; ${box.calls.toLocaleString("en")} runs in ${box.c ? "C" : "Python"}`]);
      if (box.calls) rows.push(["Per run", duration(box.seconds / box.calls)]);
    }
  } else {
    rows.push(["Type", box.type]);
    if (box.text) rows.push([box.kind === "constant_input" ? "Value" : "Role", box.text]);
  }
  if (box.source) {
    const [file, line, name, text] = box.source;
    rows.push(["Made at", `${file}:${line}, in ${name}`]);
    if (text) rows.push(["", text, "code"]);
  }
  if (box.inner !== undefined) rows.push(["", `Double click ${node.inside ? "closes" : "opens"} the graph inside.`]);
  return [`${KINDS[box.kind]} ${node.label}`, rows];
}

function edgeRows({ edge, from, to }) {
  const rows = [["Type", edge.label]];
  rows.push(["From", edge.fromPort === null ? from.label : `output ${edge.fromPort} of ${from.label}`]);
  rows.push(["To", edge.toPort === null ? to.label : `input ${edge.toPort} of ${to.label}`]);
  if (edge.effect === "destroyed") rows.push(["", "The node overwrites it."]);
  if (edge.effect === "viewed") rows.push(["", "The node returns a view of it."]);
  return ["Arrow", rows];
}

/** Fill the tooltip, and show it next to the mouse. Texts are inserted as text, never as HTML. */
export function showTip(tip, event, facts) {
  const [title, rows] = facts.kind === "node" ? nodeRows(facts) : edgeRows(facts);
  const head = document.createElement("b");
  head.textContent = title;
  const list = document.createElement("dl");
  for (const [name, text, tag] of rows) {
    const term = document.createElement("dt");
    term.textContent = name;
    const detail = document.createElement("dd");
    const place = tag ? detail.appendChild(document.createElement(tag)) : detail;
    place.textContent = text;
    list.append(term, detail);
  }
  tip.replaceChildren(head, list);
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  const right = event.clientX + 16 + width < innerWidth;
  tip.style.left = `${right ? event.clientX + 16 : Math.max(4, event.clientX - 16 - width)}px`;
  tip.style.top = `${Math.max(4, Math.min(event.clientY + 12, innerHeight - height - 8))}px`;
}

/** Fill the legend with the meanings of the colors that occur in the graphs. */
export function legend(place, data, byTime) {
  const rows = [];
  const there = new Set(data.drawings.flatMap((drawing) => drawing.boxes.map((box) => box.kind)));
  for (const kind of Object.keys(KINDS)) {
    if (kind !== "apply" && there.has(kind)) rows.push(["", KINDS[kind], data.colors[kind] ?? "#fff"]);
  }
  if (byTime) rows.push(["scale", "Op: no time to most time"]);
  else rows.push(["apply", "Op, coloured by kind", "#fff"]);
  rows.push(["line", "overwritten by the node", "red"], ["line", "seen through a view", "dodgerblue"]);
  const details = document.createElement("details");
  details.open = place.firstChild?.open ?? innerHeight > 500;
  const summary = document.createElement("summary");
  summary.textContent = "Legend";
  details.append(summary);
  for (const [name, text, color] of rows) {
    const row = document.createElement("div");
    const sign = document.createElement("i");
    sign.className = name;
    if (color) sign.style[name === "line" ? "borderTopColor" : "background"] = color;
    row.append(sign, text);
    details.append(row);
  }
  place.replaceChildren(details);
}
