// What a reader sees of a page: which texts lie on top of each other, and what the screen cuts off.
() => {
  const shown = (node) => {
    const parent = node.parentElement;
    if (!node.textContent.trim()) return [];
    if (parent.closest("script, style, title, caption, .spoken, .skip")) return [];
    const range = document.createRange();
    range.selectNodeContents(node);
    let boxes = [...range.getClientRects()];
    // A box that hides what is too long for it, or lets it scroll.
    for (let at = parent; at; at = at.parentElement) {
      if (getComputedStyle(at).overflow === "visible" || at instanceof SVGElement) continue;
      const clip = at.getBoundingClientRect();
      boxes = boxes.map((one) => ({
        left: Math.max(one.left, clip.left), right: Math.min(one.right, clip.right),
        top: Math.max(one.top, clip.top), bottom: Math.min(one.bottom, clip.bottom),
      }));
    }
    return boxes.filter((one) => one.right - one.left > 1 && one.bottom - one.top > 1)
      .map((box) => ({ box, parent, text: node.textContent.trim().slice(0, 40) }));
  };
  for (const part of document.querySelectorAll("details")) part.open = true;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const texts = [];
  while (walker.nextNode()) {
    // Headers of tables stay in sight above what scrolls.
    if (!walker.currentNode.parentElement.closest(".scroll")) texts.push(...shown(walker.currentNode));
  }
  texts.sort((a, b) => a.box.top - b.box.top);
  const overlaps = [];
  texts.forEach((one, i) => {
    for (let j = i + 1; j < texts.length && texts[j].box.top < one.box.bottom; j++) {
      const a = one.box, b = texts[j].box;
      const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (one.parent !== texts[j].parent && across > 1.5 && down > 3) {
        overlaps.push(`${one.text} | ${texts[j].text}`);
      }
    }
  });
  const cut = texts.filter(({ box }) => box.left < -1 || box.right > innerWidth + 1);
  const box = document.querySelector("[data-filter]");
  const rows = box ? [...document.getElementById(box.dataset.filter).tBodies[0].rows] : [];
  const count = () => rows.filter((row) => row.offsetParent !== null).length;
  const before = count();
  if (box) {
    box.value = "no such text anywhere";
    box.dispatchEvent(new Event("input"));
  }
  const small = [...document.querySelectorAll(".chart text")].map((one) => one.getBoundingClientRect())
    .filter((one) => Math.max(one.width, one.height) < 9).length;
  return {
    width: innerWidth, page: document.documentElement.scrollWidth, overlaps,
    cut: cut.map((one) => one.text), charts: document.querySelectorAll(".chart svg").length,
    texts: texts.length, small, before, found: count(),
  };
}
