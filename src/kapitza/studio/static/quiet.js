// Plotly is asked to resize a figure whose tab has just been left, and complains: there is nothing to resize.
window.addEventListener("unhandledrejection", (event) => {
  if (String(event.reason).includes("Resize must be passed a displayed plot div element")) event.preventDefault();
});
