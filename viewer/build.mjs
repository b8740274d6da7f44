// Builds ../theano_ng/d3viz/page/viewer.js of src/ and the modules that package.json pins. Run `npm ci && npm run build` after a change.

import { createHash } from "node:crypto";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { build } from "esbuild";

const { packages } = JSON.parse(readFileSync("package-lock.json", "utf8"));
const result = await build({
  entryPoints: ["src/main.js"],
  bundle: true,
  minifySyntax: true,
  minifyWhitespace: true,
  format: "iife",
  target: "es2021",
  charset: "utf8",
  legalComments: "none",
  metafile: true,
  write: false,
});

const used = [
  ...new Set(
    Object.keys(result.metafile.inputs)
      .filter((path) => path.startsWith("node_modules/"))
      .map((path) => path.split("/").slice(1, path.startsWith("node_modules/@") ? 3 : 2).join("/")),
  ),
].sort();
const sources = createHash("sha256");
for (const name of readdirSync("src").sort()) sources.update(name).update(readFileSync(`src/${name}`));
const text = result.outputFiles[0].text.replaceAll("</script", "<\\/script");
const versions = used.map((name) => `${name} ${packages[`node_modules/${name}`].version}`);
const head = `/* Built by viewer/build.mjs; licences: LICENSES.txt. ${versions.join(", ")}. Sources: ${sources.digest("hex")} */\n`;
writeFileSync("../theano_ng/d3viz/page/viewer.js", head + text);
const licences = used.map((name) => `${name} ${packages[`node_modules/${name}`].version}\n\n${readFileSync(`node_modules/${name}/LICENSE`, "utf8").trim()}\n`);
writeFileSync("../theano_ng/d3viz/page/LICENSES.txt", `viewer.js contains parts of these modules.\n\n${licences.join(`\n${"-".repeat(72)}\n\n`)}`);
console.log(`${head.length + text.length} bytes`);
