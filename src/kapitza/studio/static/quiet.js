// Plotly is asked to resize a figure whose tab has just been left, and complains: there is nothing to resize.
window.addEventListener("unhandledrejection", (event) => {
  if (String(event.reason).includes("Resize must be passed a displayed plot div element")) event.preventDefault();
});

// What is being typed stays: a value that the server has sent before it heard of a key would replace it under the hand.
const TYPING = 600; // milliseconds after a key: the pause until the server takes the text, and the way there and back
const plain = (field) =>
  (field instanceof HTMLTextAreaElement || (field instanceof HTMLInputElement && field.type !== "checkbox")) && field.getAttribute("role") !== "combobox";
document.addEventListener("input", (event) => {
  const field = event.target;
  // Only keys count, not the event below, which would hold the text for ever.
  if (!plain(field) || event instanceof CustomEvent) return;
  field.typedAt = performance.now();
  if (Object.hasOwn(field, "value")) return;
  const { get, set } = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(field), "value");
  let told = 0;
  Object.defineProperty(field, "value", {
    configurable: true,
    get() { return get.call(this); },
    set(value) {
      const own = get.call(this);
      if (this !== document.activeElement || performance.now() - this.typedAt > TYPING || String(value ?? "") === own) {
        set.call(this, value);
        return;
      }
      // The framework has taken the other value for its own: it is told the text once more.
      clearTimeout(told);
      told = setTimeout(() => this.dispatchEvent(new CustomEvent("input", { bubbles: true })));
    },
  });
}, true);
