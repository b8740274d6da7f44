// Layered drawing of an acyclic graph (Sugiyama, Tagawa, Toda 1981). The steps are: ranks of the nodes, an order in
// each rank with few crossings, x coordinates, routes of edges. The time is roughly linear in the number of nodes and
// the lengths of the edges.

const GAP_X = 22;
const GAP_Y = 44;
const TRUNK = 10; // width reserved for an edge in each rank that it crosses
const SWEEPS = 10;
const ALIGNMENTS = 10;

/** Return the nodes in topological order: each node before its successors. */
function topological(n, out, indegree) {
  const waiting = Int32Array.from(indegree);
  const order = [];
  for (let v = 0; v < n; v++) if (waiting[v] === 0) order.push(v);
  for (let i = 0; i < order.length; i++) for (const w of out[order[i]]) if (--waiting[w] === 0) order.push(w);
  return order;
}

/**
 * Return a rank for each node, below the ranks of its predecessors.
 *
 * A node with at least as many outgoing as incoming edges, such as an input, is directly above its nearest successor.
 */
function ranks(n, out, indegree) {
  const order = topological(n, out, indegree);
  const rank = new Int32Array(n);
  for (const v of order) for (const w of out[v]) rank[w] = Math.max(rank[w], rank[v] + 1);
  for (let i = order.length - 1; i >= 0; i--) {
    const v = order[i];
    if (out[v].length && out[v].length >= indegree[v]) {
      let next = Infinity;
      for (const w of out[v]) next = Math.min(next, rank[w]);
      rank[v] = next - 1;
    }
  }
  return rank;
}

/** Count the crossings between two adjacent ranks: they are inversions, counted with a Fenwick tree. */
function crossings(upper, down, place, size) {
  const tree = new Int32Array(size + 1);
  let count = 0;
  let seen = 0;
  for (const v of upper) {
    const ends = down[v].map((w) => place[w]);
    for (const end of ends) {
      let before = 0;
      for (let i = end + 1; i > 0; i -= i & -i) before += tree[i];
      count += seen - before;
    }
    for (const end of ends) {
      for (let i = end + 1; i <= size; i += i & -i) tree[i]++;
      seen++;
    }
  }
  return count;
}

/** Order the cells of each rank so that few edges cross: by barycenters of their neighbors, alternately down and up. */
function orderRanks(layers, up, down, place) {
  const key = new Float64Array(place.length);
  const number = (layer) => layer.forEach((v, i) => (place[v] = i));
  const total = () => {
    let sum = 0;
    for (let r = 0; r + 1 < layers.length; r++) sum += crossings(layers[r], down, place, layers[r + 1].length);
    return sum;
  };
  layers.forEach(number);
  let best = layers.map((layer) => layer.slice());
  let fewest = total();
  for (let sweep = 0; sweep < SWEEPS && fewest > 0; sweep++) {
    const downwards = sweep % 2 === 0;
    const neighbours = downwards ? up : down;
    for (let i = 1; i < layers.length; i++) {
      const layer = layers[downwards ? i : layers.length - 1 - i];
      for (const v of layer) {
        const near = neighbours[v];
        let sum = 0;
        for (const w of near) sum += place[w];
        key[v] = near.length ? sum / near.length : place[v];
      }
      layer.sort((a, b) => key[a] - key[b] || place[a] - place[b]);
      number(layer);
    }
    const now = total();
    if (now < fewest) {
      fewest = now;
      best = layers.map((layer) => layer.slice());
    }
  }
  best.forEach((layer, r) => {
    layers[r] = layer;
    number(layer);
  });
}

/**
 * Set the x coordinates of a rank as near as possible to the wanted ones (weighted least squares).
 *
 * The method is isotonic regression: it keeps the order of the cells, and their distances are at least the sum of their
 * half widths.
 */
function arrange(layer, x, half, wanted, weight) {
  const blocks = []; // [mean, weight, first]
  let offset = 0;
  const offsets = layer.map((v, i) => (i ? (offset += half[layer[i - 1]] + half[v]) : 0));
  layer.forEach((v, i) => {
    let block = [wanted[v] - offsets[i], weight[v], i];
    while (blocks.length && blocks[blocks.length - 1][0] >= block[0]) {
      const [mean, w, first] = blocks.pop();
      block = [(mean * w + block[0] * block[1]) / (w + block[1]), w + block[1], first];
    }
    blocks.push(block);
  });
  blocks.forEach(([mean, , first], b) => {
    const end = b + 1 < blocks.length ? blocks[b + 1][2] : layer.length;
    for (let i = first; i < end; i++) x[layer[i]] = mean + offsets[i];
  });
}

function abscissae(layers, up, down, half, isTrunk) {
  const n = half.length;
  const x = new Float64Array(n);
  const wanted = new Float64Array(n);
  const weight = new Float64Array(n);
  for (const layer of layers) {
    weight.fill(1);
    arrange(layer, x, half, wanted, weight);
    const middle = (x[layer[0]] + x[layer[layer.length - 1]]) / 2;
    for (const v of layer) x[v] -= middle;
  }
  const pull = (layer, sides) => {
    for (const v of layer) {
      let sum = 0;
      let total = 0;
      for (const side of sides) {
        for (const w of side[v]) {
          const strength = isTrunk[v] && isTrunk[w] ? 8 : isTrunk[v] || isTrunk[w] ? 2 : 1;
          sum += strength * x[w];
          total += strength;
        }
      }
      wanted[v] = total ? sum / total : x[v];
      weight[v] = total || 0.1;
    }
    arrange(layer, x, half, wanted, weight);
  };
  for (let i = 0; i < ALIGNMENTS; i++) {
    const sides = i >= ALIGNMENTS - 4 ? [up, down] : null;
    for (let r = 0; r < layers.length; r++) pull(layers[r], sides ?? [up]);
    for (let r = layers.length - 1; r >= 0; r--) pull(layers[r], sides ?? [down]);
  }
  return x;
}

/**
 * Place the nodes and route the edges.
 *
 * nodes: [{width, height}]. This function sets x and y, the center of each node.
 * edges: [{from, to}]. This function sets two lists of points between the ends: `via`, then `last`. Edges of the same
 * start node share the first points of `via`.
 * Returns the size of the drawing, whose upper left corner is at (0, 0).
 */
export function layout(nodes, edges) {
  const n = nodes.length;
  if (!n) return { width: 0, height: 0 };
  const out = Array.from({ length: n }, () => []);
  const indegree = new Int32Array(n);
  for (const { from, to } of edges) {
    out[from].push(to);
    indegree[to]++;
  }
  const rank = Array.from(ranks(n, out, indegree));
  const least = rank.reduce((a, b) => Math.min(a, b), Infinity);
  rank.forEach((r, v) => (rank[v] = r - least));

  // The long edges of a node share a trunk, which has a cell in each rank that it crosses.
  const up = Array.from({ length: n }, () => []);
  const down = Array.from({ length: n }, () => []);
  const trunks = Array.from({ length: n }, () => []);
  const cell = (r) => {
    up.push([]);
    down.push([]);
    rank.push(r);
    return rank.length - 1;
  };
  const join = (a, b) => {
    down[a].push(b);
    up[b].push(a);
  };
  for (const { from, to } of edges) {
    const trunk = trunks[from];
    while (rank[from] + trunk.length + 1 < rank[to]) {
      const next = cell(rank[from] + trunk.length + 1);
      join(trunk.length ? trunk[trunk.length - 1] : from, next);
      trunk.push(next);
    }
    const span = rank[to] - rank[from] - 1;
    join(span ? trunk[span - 1] : from, to);
  }
  const total = rank.length;
  const layers = [];
  // Traverse depth first, so that connected cells are initially side by side.
  const seen = new Uint8Array(total);
  for (let root = 0; root < n; root++) {
    if (up[root].length || seen[root]) continue;
    const stack = [root];
    while (stack.length) {
      const v = stack.pop();
      if (seen[v]) continue;
      seen[v] = 1;
      (layers[rank[v]] ??= []).push(v);
      for (let i = down[v].length - 1; i >= 0; i--) stack.push(down[v][i]);
    }
  }
  const place = new Int32Array(total);
  orderRanks(layers, up, down, place);

  const half = new Float64Array(total).fill(TRUNK / 2);
  const isTrunk = new Uint8Array(total).fill(1);
  for (let v = 0; v < n; v++) {
    half[v] = (nodes[v].width + GAP_X) / 2;
    isTrunk[v] = 0;
  }
  const x = abscissae(layers, up, down, half, isTrunk);

  let y = 0;
  const tops = [];
  const bottoms = [];
  layers.forEach((layer, r) => {
    let height = 0;
    for (const v of layer) if (v < n) height = Math.max(height, nodes[v].height);
    tops[r] = y;
    bottoms[r] = y + height;
    for (const v of layer) if (v < n) nodes[v].y = y + height / 2;
    y += height + GAP_Y;
  });
  let left = Infinity;
  let right = -Infinity;
  for (let v = 0; v < total; v++) {
    left = Math.min(left, x[v] - half[v] + (v < n ? GAP_X / 2 : 0));
    right = Math.max(right, x[v] + half[v] - (v < n ? GAP_X / 2 : 0));
  }
  for (let v = 0; v < n; v++) nodes[v].x = x[v] - left;
  for (const edge of edges) {
    edge.via = [];
    edge.last = [];
    const span = rank[edge.to] - rank[edge.from] - 1;
    for (const t of trunks[edge.from].slice(0, span)) {
      edge.via.push([x[t] - left, tops[rank[t]]], [x[t] - left, bottoms[rank[t]]]);
    }
    // An open box in the rank of a node may be much higher than the node. The edge then crosses the rank vertically.
    const low = (v) => bottoms[rank[v]] - tops[rank[v]] - nodes[v].height > 2 * GAP_Y;
    if (low(edge.from)) edge.via.unshift([nodes[edge.from].x, bottoms[rank[edge.from]]]);
    if (low(edge.to)) edge.last.push([nodes[edge.to].x, tops[rank[edge.to]]]);
  }
  return { width: right - left, height: y - GAP_Y };
}
