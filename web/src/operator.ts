/** The key by which an operator may do more than others. */

/** Where the crew's key is kept until the window is closed. */
export const KEY = "glassline-key";

/** The operator's key: of the page's address, or typed in; empty where there is none, or the browser keeps nothing. */
export function operatorKey(): string {
  const given = new URLSearchParams(location.search).get("key");
  if (given) return given;
  try {
    return sessionStorage.getItem(KEY) ?? "";
  } catch {
    return "";
  }
}
