// Keeps the page up to date where it stands: only what differs is changed, so focus, selection and scrolling stay.
// Without it everything is there all the same, as of the time in the foot.
"use strict";
(() => {
  const PERIOD_MS = 5000;
  const button = document.getElementById("pause");
  const trouble = () => document.getElementById("trouble");
  let timer = 0;
  let isPaused = false;

  function morph(now, then) {
    if (now.nodeType !== then.nodeType || now.nodeName !== then.nodeName) {
      now.replaceWith(then.cloneNode(true));
    } else if (now.nodeType === Node.TEXT_NODE) {
      if (now.data !== then.data) now.data = then.data;
    } else if (now.nodeType === Node.ELEMENT_NODE) {
      for (const { name } of [...now.attributes]) if (!then.hasAttribute(name)) now.removeAttribute(name);
      for (const { name, value } of then.attributes) if (now.getAttribute(name) !== value) now.setAttribute(name, value);
      const before = [...now.childNodes];
      const after = [...then.childNodes];
      after.forEach((child, index) => {
        if (index < before.length) morph(before[index], child);
        else now.append(child.cloneNode(true));
      });
      before.slice(after.length).forEach((child) => child.remove());
    }
  }

  async function refresh() {
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
      if (!answer.ok) throw new Error(await answer.text());
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      document.title = page.title;
      for (const part of ["main", "footer"]) morph(document.querySelector(part), page.querySelector(part));
      document.documentElement.classList.remove("stale");
    } catch (failure) {
      document.documentElement.classList.add("stale");
      const text = " · The broker does not answer.";
      if (trouble().textContent !== text) trouble().textContent = text;
    }
    plan();
  }

  function plan() {
    clearTimeout(timer);
    if (!isPaused && !document.hidden) timer = setTimeout(refresh, PERIOD_MS);
  }

  button.hidden = false;
  button.addEventListener("click", () => {
    isPaused = !isPaused;
    button.textContent = isPaused ? "Resume" : "Pause";
    if (isPaused) clearTimeout(timer);
    else refresh();
  });
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && !isPaused) refresh();
  });
  plan();
})();
