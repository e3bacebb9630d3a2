// Bundles the views named in package.json ("views") into src/piweb_jupyter/static.
//
//   node tools/bundle.mjs            one build
//   node tools/bundle.mjs --watch    again at every change
//   node tools/bundle.mjs --strict   a view whose source is missing is an error

import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import * as esbuild from "esbuild";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const outdir = join(root, "src/piweb_jupyter/static");
const { views } = JSON.parse(readFileSync(join(root, "package.json"), "utf-8"));
const flags = new Set(process.argv.slice(2));

const entryPoints = [];
for (const view of views) {
  if (existsSync(join(root, `${view}.ts`))) {
    entryPoints.push({ in: join(root, `${view}.ts`), out: basename(view) });
  } else if (flags.has("--strict")) {
    throw new Error(`${view}.ts is named in package.json and does not exist`);
  } else {
    console.warn(`bundle: no ${view}.ts yet`);
  }
  if (existsSync(join(root, `${view}.css`))) {
    entryPoints.push({ in: join(root, `${view}.css`), out: basename(view) });
  }
}

const options = {
  absWorkingDir: root,
  entryPoints,
  outdir,
  bundle: true,
  format: "esm",
  // A saved notebook carries the bundle once per widget: every byte counts.
  minify: true,
  target: "es2022",
  charset: "utf8",
  legalComments: "inline",
  loader: { ".svg": "text", ".woff2": "dataurl" },
  logLevel: "warning",
};

mkdirSync(outdir, { recursive: true });
if (flags.has("--watch")) {
  const context = await esbuild.context({ ...options, logLevel: "info" });
  await context.watch();
} else if (entryPoints.length > 0) {
  const { metafile } = await esbuild.build({ ...options, metafile: true });
  for (const [file, { bytes }] of Object.entries(metafile.outputs)) {
    console.log(`bundle: ${file} ${(bytes / 1024).toFixed(1)} kB`);
  }
}
