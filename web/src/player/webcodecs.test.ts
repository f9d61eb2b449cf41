import { expect, it } from "vitest";
import { endsAtSound } from "./webcodecs";

it("is not used in WebKit for GTK, and in no other browser for that reason", () => {
  const kit = "AppleWebKit/605.1.15 (KHTML, like Gecko)";
  expect(endsAtSound(`Mozilla/5.0 (X11; Linux x86_64) ${kit} Version/60.5 Safari/605.1.15`)).toBe(true);
  expect(endsAtSound(`Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) ${kit} Version/26.0 Safari/605.1.15`)).toBe(false);
  expect(endsAtSound("Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/156.0.0.0 Safari/537.36")).toBe(false);
  expect(endsAtSound("Mozilla/5.0 (X11; Linux x86_64; rv:153.0) Gecko/20100101 Firefox/153.0")).toBe(false);
});
