/** Whether the browser lets this page be heard before its viewer has clicked or typed. */

/** A context that may run does so within this time. */
const PATIENCE_MS = 500;

/** Asks by trying: browsers have no common question for it. */
export async function mayPlaySound(): Promise<boolean> {
  if (typeof AudioContext !== "function") return false;
  const context = new AudioContext();
  const running = new Promise<boolean>((answered) => {
    const look = (): void => {
      if (context.state === "running") answered(true);
    };
    context.addEventListener("statechange", look);
    look();
    window.setTimeout(() => answered(context.state === "running"), PATIENCE_MS);
  });
  // Where it must wait for a click this never ends.
  void context.resume().catch(() => undefined);
  try {
    return await running;
  } finally {
    void context.close();
  }
}
