// Builds the page into the folder that the gateway serves; deploy/web.py calls it with --outDir.
import { defineConfig } from "vite";

// Radix names each of its functions anew, for stack traces. Packed, that keeps classes that nobody uses, and weighs 4 kB.
const unnamed = {
  name: "unnamed-functions",
  transform: {
    filter: { id: /node_modules\/@radix-ui\// },
    handler: (code) => ({ code: code.replace(/^var __name = .*$/m, "var __name = /* @__NO_SIDE_EFFECTS__ */ (target) => target;"), map: null }),
  },
};

export default defineConfig({
  plugins: [unnamed],
  build: {
    target: "es2022",
    // The content policy allows no data: URLs for scripts and styles, and no inline script.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    emptyOutDir: true,
    rolldownOptions: { input: ["index.html", "frameworks.html"] },
  },
  experimental: {
    // Pages are served at / and their files below static/. Both are relative, so that a path prefix is no matter.
    renderBuiltUrl: (filename, { hostType }) => (hostType === "html" ? `./static/${filename}` : { relative: true }),
  },
});
