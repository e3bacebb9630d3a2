// The counter's own view. It draws the snapshot and sends commands; it keeps no state of its own.

function make(tag, className, text = "") {
  const node = document.createElement(tag);
  node.className = className;
  node.textContent = text;
  return node;
}

function render({ surface, el }) {
  const root = make("div", "counter-view");
  const count = make("output", "counter-view-count", "–");
  count.setAttribute("aria-label", "count");
  const controls = make("div", "counter-view-controls");
  const by = make("input", "counter-view-by");
  Object.assign(by, { type: "number", min: 1, max: 100, value: 1 });
  by.setAttribute("aria-label", "how many");
  const add = make("button", "counter-view-add", "increment");
  const reset = make("button", "counter-view-reset", "reset");
  const problem = make("div", "counter-view-problem");
  problem.setAttribute("role", "alert");
  const log = make("ol", "counter-view-log");
  controls.append(by, add, reset);
  root.append(count, controls, problem, log);
  el.append(root);

  const run = async (action, args) => {
    const result = await surface.run(action, args);
    problem.textContent = result.ok ? "" : result.error.message;
  };
  add.onclick = () => run("increment", { by: Number(by.value) });
  reset.onclick = () => run("reset");
  by.onkeydown = (event) => {
    if (event.key === "Enter") add.click();
  };

  const draw = () => {
    const { state, available } = surface;
    root.classList.toggle("counter-view-offline", !available);
    add.disabled = reset.disabled = !available;
    if (!state) return;
    count.textContent = String(state.count);
    log.replaceChildren(...state.log.slice(-5).reverse().map((line) => make("li", "", line)));
  };
  draw();
  return surface.subscribe(draw);
}

export default { render };
