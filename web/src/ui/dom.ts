/** The few helpers that building a page by hand takes. */

type Child = Node | string | null;

/** An element with a class, attributes (a listener for each `on…` function) and children. */
export function element<K extends keyof HTMLElementTagNameMap>(
  tag: K, attributes: Record<string, string | boolean | ((event: Event) => void)> = {}, ...children: Child[]
): HTMLElementTagNameMap[K] {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false) node.setAttribute(name, value);
  }
  append(node, children);
  return node;
}

export function append(node: Element, children: readonly Child[]): void {
  node.append(...children.filter((child) => child !== null));
}

const SVG = "http://www.w3.org/2000/svg";

/** An SVG element. */
export function svg(tag: string, attributes: Record<string, string>, ...children: Node[]): SVGElement {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

/** Sets text only where it changes, so that a selection survives. */
export function setText(node: Element, text: string): void {
  if (node.textContent !== text) node.textContent = text;
}

/** Sets an attribute only where it changes. */
export function setAttribute(node: Element, name: string, value: string): void {
  if (node.getAttribute(name) !== value) node.setAttribute(name, value);
}

/** Has `children`, in this order and nothing else, in `parent`; what is there already is not touched, so that it goes on playing. */
export function placeOnly(parent: Element, children: readonly Element[]): void {
  const wanted = new Set(children);
  for (const child of [...parent.children]) if (!wanted.has(child)) child.remove();
  children.forEach((child, index) => {
    if (parent.children[index] !== child) parent.insertBefore(child, parent.children[index] ?? null);
  });
}

/** Copies to the clipboard; over plain HTTP, where there is no clipboard interface, by a selection. */
export async function copy(text: string): Promise<boolean> {
  try {
    if (window.isSecureContext && navigator.clipboard) {
      await navigator.clipboard.writeText(text);
      return true;
    }
  } catch {
    // Refused: the old way may still work.
  }
  const area = element("textarea", { class: "offscreen", readonly: true, "aria-hidden": "true" });
  area.value = text;
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  return done;
}

/** A line of code with a button that copies it. */
export function copyLine(label: string, text: string): HTMLElement {
  const button = element("button", { type: "button", class: "copy", "aria-label": `Copy the ${label} line` }, "Copy");
  button.addEventListener("click", () => {
    void copy(text).then((done) => {
      button.textContent = done ? "Copied" : "Press Ctrl+C";
      window.setTimeout(() => (button.textContent = "Copy"), 1500);
    });
  });
  return element(
    "div", { class: "copy-line" }, element("span", { class: "copy-label" }, label), element("code", { tabindex: "-1" }, text), button,
  );
}

/** The crew's line: a sentence as it is; an address as a link, and like a number of a telephone with what it is for. */
export function contactLine(contact: string | null): HTMLElement | null {
  if (!contact) return null;
  const lead = "Something wrong? Tell the crew: ";
  if (/^https?:\/\/\S+$/.test(contact)) return element("p", { class: "contact" }, lead, element("a", { href: contact, rel: "noopener" }, contact));
  if (/^[^\s@]+@[^\s@]+\.[^\s@]+$/.test(contact)) return element("p", { class: "contact" }, lead, element("a", { href: `mailto:${contact}` }, contact));
  return element("p", { class: "contact" }, /^[\d\s()+/-]+$/.test(contact) ? lead + contact : contact);
}
