// Classify the row in the form with onnxruntime-web, whenever it changes.
import * as ort from "./node_modules/onnxruntime-web/dist/ort.wasm.min.mjs";

ort.env.wasm.wasmPaths = new URL("./node_modules/onnxruntime-web/dist/", import.meta.url).href;
ort.env.wasm.numThreads = 1; // more need headers that a plain file server does not send

const form = document.getElementById("row");
const answer = document.getElementById("answer");

function field(column, place) {
  const label = document.createElement("label");
  label.append(column.name);
  let input;
  if (column.kind === "boolean") {
    input = document.createElement("select");
    for (const [value, text] of [["", "(missing)"], ["0", "no"], ["1", "yes"]]) {
      input.append(new Option(text, value));
    }
    input.value = String(Math.round(column.usual));
  } else {
    input = document.createElement("input");
    input.value = column.usual;
    if (column.type === "double") {
      input.type = "number";
      input.step = "any";
    } else {
      const list = document.createElement("datalist");
      list.id = `levels-${place}`;
      for (const level of column.levels) list.append(new Option(level));
      input.setAttribute("list", list.id);
      label.append(list);
    }
  }
  input.name = column.name;
  label.append(input);
  return label;
}

// One tensor a column, of shape (1, 1), as the file's inputs are.
function tensors(columns) {
  const feeds = {};
  for (const column of columns) {
    const text = form.elements[column.name].value.trim();
    if (column.type === "string") {
      feeds[column.name] = new ort.Tensor("string", [text === "" ? column.missing : text], [1, 1]);
    } else {
      const number = text === "" ? NaN : Number(text);
      feeds[column.name] = new ort.Tensor("float64", [number], [1, 1]);
    }
  }
  return feeds;
}

function show(classes, label, probabilities) {
  answer.replaceChildren();
  const heading = document.createElement("h2");
  heading.textContent = label;
  answer.append(heading);
  classes.forEach((name, place) => {
    const line = document.createElement("div");
    line.className = "class";
    line.dataset.class = name;
    line.dataset.probability = probabilities[place];
    const text = document.createElement("span");
    text.textContent = name;
    const track = document.createElement("div");
    const bar = document.createElement("div");
    bar.className = "bar";
    bar.style.width = `${100 * probabilities[place]}%`;
    track.append(bar);
    const share = document.createElement("span");
    share.textContent = `${(100 * probabilities[place]).toFixed(1)} %`;
    line.append(text, track, share);
    answer.append(line);
  });
}

try {
  const schema = await (await fetch("model.json")).json();
  const session = await ort.InferenceSession.create("model.onnx");
  form.append(...schema.columns.map(field));
  let running = Promise.resolve();
  const update = () => {
    running = running.then(async () => {
      const begin = performance.now();
      const outputs = await session.run(tensors(schema.columns));
      show(schema.classes, outputs.label.data[0], [...outputs.probabilities.data]);
      const spent = performance.now() - begin;
      document.getElementById("time").textContent = `classified in ${spent.toFixed(1)} ms`;
    }).catch((error) => { answer.textContent = String(error); });
    return running;
  };
  form.addEventListener("input", update);
  form.addEventListener("submit", (event) => event.preventDefault());
  await update();
} catch (error) {
  answer.textContent = `The model could not be loaded: ${error}. Has make_model.py been run, and is the page served over HTTP?`;
}
