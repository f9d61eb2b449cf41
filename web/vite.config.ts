import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

/** `npm run dev` and `npm run preview` ask a running server for all that is not the page. */
const upstream = process.env["GLASSLINE"] ?? "http://127.0.0.1:8080";
const proxy = { "^/(live|api|metrics)(/|$)": { target: upstream, changeOrigin: true } };

// The server embeds dist: names are fixed, so that its table of files does not change with each build,
// and nothing is inlined, so that a strict Content-Security-Policy holds.
export default defineConfig({
  // Addresses are relative, so that a proxy may have it all in a folder; the server says how far up that is.
  base: "./",
  // dash.js without protection and Smooth Streaming, which its package has no name for.
  resolve: {
    alias: [{
      find: /^dashjs$/,
      replacement: fileURLToPath(new URL("node_modules/dashjs/dist/modern/esm/dash.mediaplayer.min.js", import.meta.url)),
    }],
  },
  build: {
    outDir: "dist",
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: false,
    sourcemap: false,
    // The libraries for LL-HLS and LL-DASH are so large, and loaded by who chooses them.
    chunkSizeWarningLimit: 1000,
    rollupOptions: {
      input: { app: "index.html", "audio-worklet": "src/audio/worklet.ts" },
      output: {
        entryFileNames: "assets/[name].js",
        chunkFileNames: "assets/[name].js",
        assetFileNames: "assets/[name][extname]",
      },
    },
  },
  server: { proxy },
  preview: { proxy },
  // A busy machine takes its time; what hangs is found all the same.
  test: { include: ["src/**/*.test.ts"], testTimeout: 60_000 },
});
