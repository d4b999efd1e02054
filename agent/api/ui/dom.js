// Elements. Text is always set as text, never as HTML: names and messages come from others.

/** An element: h('p.quiet', {title: '…'}, 'text', child, …). Children that are null are left out. */
export function h(spec, attributes, ...children) {
  const [tag, ...classes] = spec.split('.');
  const element = document.createElement(tag || 'div');
  if (classes.length) element.className = classes.join(' ');
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value == null || (value === false && !name.startsWith('aria-'))) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true && !name.startsWith('aria-') ? '' : value);
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child != null && child !== false) element.append(child);
  }
}

export function text(element, value) {
  const string = String(value ?? '');
  if (element.textContent !== string) element.textContent = string;
}

export function attribute(element, name, value) {
  if (value == null || (value === false && !name.startsWith('aria-'))) element.removeAttribute(name);
  else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
}

export const replace = (element, ...children) => {
  element.replaceChildren();
  append(element, children);
};

/** A bar: how much of a whole is used, and a mark in it. `level`: '', 'warn' or 'bad'. */
export function meter() {
  const fill = h('i');
  const mark = h('b', { hidden: true });
  const bar = h('span.meter', { 'aria-hidden': 'true' }, fill, mark);
  return { bar, set: (share, at, level) => setMeter({ bar, fill, mark }, share, at, level) };
}

function setMeter({ bar, fill, mark }, share, at, level) {
  bar.classList.toggle('none', share == null);
  fill.style.setProperty('--share', share == null ? 0 : Math.max(0, Math.min(1, share)).toFixed(4));
  mark.hidden = at == null || at > 1;
  if (!mark.hidden) mark.style.setProperty('--at', `${(Math.max(0, at) * 100).toFixed(2)}%`);
  attribute(bar, 'data-level', level || null);
}

/** How alarming it is that `share` of a limit is used, as in `nodewarden top`. */
export const level = (share) => (share == null ? '' : share >= 0.95 ? 'bad' : share >= 0.8 ? 'warn' : '');

export const empty = (title, ...more) => h('div.empty', {}, h('p.empty-title', {}, title), more.map((m) => h('p', {}, m)));

/** A table of few rows, made whole. */
export function table(label, head, rows) {
  const cell = (tag, content, index) => h(`${tag}${head[index][1] ? '.num' : ''}`, tag === 'th' ? { scope: 'col' } : {}, content);
  return h('div.scroll', { tabindex: '0', role: 'region', 'aria-label': label },
    h('table', {},
      h('thead', {}, h('tr', {}, head.map(([name], i) => cell('th', name, i)))),
      h('tbody', {}, rows.map((row) => h('tr', row.attributes ?? {}, row.cells.map((content, i) => cell('td', content, i)))))));
}

/** Name and value pairs. Pairs whose value is null are left out. */
export const facts = (pairs) =>
  h('dl.facts', {}, pairs.filter(([, value]) => value != null && value !== '').map(([name, value]) => [h('dt', {}, name), h('dd', {}, value)]));
