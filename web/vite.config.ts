import { defineConfig } from "vitest/config";

// The server embeds dist: names are fixed, so that its table of files does not change with each build,
// and nothing is inlined, so that a strict Content-Security-Policy holds.
export default defineConfig({
  base: "/",
  build: {
    outDir: "dist",
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: false,
    sourcemap: false,
    rollupOptions: {
      input: { app: "index.html", "audio-worklet": "src/audio/worklet.ts" },
      output: {
        entryFileNames: "assets/[name].js",
        chunkFileNames: "assets/[name].js",
        assetFileNames: "assets/[name][extname]",
      },
    },
  },
  test: { include: ["src/**/*.test.ts"] },
});
