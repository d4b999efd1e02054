// A table that draws only the rows in view, so that thousands cost as little as ten. Keyboard: arrows, Page Up and Down,
// Home, End; Enter opens; Left and Right fold, where rows have others below them.

import { attribute, h } from './dom.js';

const AHEAD = 6;
let grids = 0;

export class Grid {
  /**
   * columns: {key, title, least (px), roomy (least on a wide page), grow (share of what is left) or width (CSS), worth (the lowest are left out first), num, make() → {node, set(item)}, by(item)}
   */
  constructor({ label, columns, key, onOpen, onFold, tree = false, sort = null, rowHeight = 40, none }) {
    Object.assign(this, { columns, key, onOpen, onFold, tree, sort, rowHeight, none });
    this.id = `grid${grids++}`;
    this.items = [];
    this.shown = columns;
    this.rows = [];
    this.active = null;
    this.head = h('div.grid-head', { role: 'rowgroup' });
    this.body = h('div.grid-body', { role: 'rowgroup' });
    this.element = h('div.grid', { role: tree ? 'treegrid' : 'grid', tabindex: '0', 'aria-label': label },
      this.head, this.body);
    this.note = h('div.grid-note', {});
    this.frame = h('div.grid-frame', {}, this.element, this.note);
    this.element.addEventListener('scroll', () => this.draw(), { passive: true });
    this.element.addEventListener('keydown', (event) => this.keydown(event));
    this.element.addEventListener('focus', () => this.draw());
    this.body.addEventListener('click', (event) => this.click(event));
    new ResizeObserver(() => this.fit()).observe(this.element);
    this.fit();
  }

  /** Leaves out the columns for which there is no room. */
  fit() {
    const width = this.element.clientWidth || 1200;
    const worth = [...this.columns].sort((a, b) => b.worth - a.worth);
    // As the style sheet: below it there is no room for limits beside what is used.
    const wide = matchMedia('(min-width: 1100px)').matches;
    const least = (column) => (wide && column.roomy) || column.least;
    const span = (column) => (column.grow ? `minmax(${least(column)}px, ${column.grow}fr)` : `${least(column)}px`);
    let left = width - 32;
    const kept = new Set();
    for (const column of worth) {
      left -= least(column) + 16;
      if (left < 0 && kept.size) break;
      kept.add(column);
    }
    const shown = this.columns.filter((column) => kept.has(column));
    const template = shown.map((column) => column.width ?? span(column)).join(' ');
    const same = this.drawn && template === this.template;
    Object.assign(this, { shown, template });
    if (!same) {
      this.drawn = true;
      this.element.style.setProperty('--columns', template);
      this.body.replaceChildren();
      this.rows = [];
      this.drawHead();
    }
    this.draw();
  }

  drawHead() {
    const cell = (column) => {
      const sorted = this.sort?.column === column.key;
      const way = sorted ? (this.sort.down ? 'descending' : 'ascending') : 'none';
      const classes = `div.cell${column.num ? '.num' : ''}`;
      if (!column.by || !this.sort) return h(classes, { role: 'columnheader' }, column.title);
      const arrow = sorted ? (this.sort.down ? ' ↓' : ' ↑') : '';
      return h(classes, { role: 'columnheader', 'aria-sort': way },
        h('button', { type: 'button', onclick: () => this.sortBy(column) }, column.title + arrow));
    };
    const focused = this.head.contains(document.activeElement) ? document.activeElement.textContent : null;
    this.head.replaceChildren(h('div.row', { role: 'row', 'aria-rowindex': '1' }, this.shown.map(cell)));
    attribute(this.element, 'aria-colcount', this.shown.length);
    const again = [...this.head.querySelectorAll('button')].find((b) => focused && b.textContent.startsWith(focused.replace(/ [↓↑]$/, '')));
    again?.focus();
  }

  sortBy(column) {
    const down = this.sort.column === column.key ? !this.sort.down : Boolean(column.num);
    this.sort = { column: column.key, down };
    this.drawHead();
    this.set(this.items);
  }

  sorted(items) {
    const column = this.sort && this.columns.find((own) => own.key === this.sort.column);
    if (!column) return items;
    const way = this.sort.down ? -1 : 1;
    const keyed = items.map((item) => [column.by(item), this.key(item), item]);
    keyed.sort(([a, x], [b, y]) => {
      // What is not known comes last.
      if (a == null || b == null) return (a == null) - (b == null) || (x < y ? -1 : 1);
      return a < b ? -way : a > b ? way : x < y ? -1 : 1;
    });
    return keyed.map(([, , item]) => item);
  }

  /** Shows these items. */
  set(items) {
    this.items = this.sorted(items);
    attribute(this.element, 'aria-rowcount', this.items.length + 1);
    this.body.style.setProperty('--height', `${this.items.length * this.rowHeight}px`);
    this.note.replaceChildren();
    if (!items.length && this.none) this.note.append(this.none());
    this.draw();
  }

  index() {
    return this.active == null ? -1 : this.items.findIndex((item) => this.key(item) === this.active);
  }

  draw() {
    const { scrollTop, clientHeight } = this.element;
    if (!clientHeight) return;
    const first = Math.max(0, Math.floor(scrollTop / this.rowHeight) - AHEAD);
    const last = Math.min(this.items.length, Math.ceil((scrollTop + clientHeight) / this.rowHeight) + AHEAD);
    const wanted = last - first;
    while (this.rows.length < wanted) this.rows.push(this.makeRow());
    const used = new Set();
    for (let index = first; index < last; index++) {
      // A row keeps its element while it is in view, so that screen readers and the mouse do not lose it.
      const at = index % this.rows.length;
      used.add(at);
      this.fill(this.rows[at], index);
    }
    this.rows.forEach((row, at) => {
      if (!used.has(at)) row.element.hidden = true;
    });
    const active = this.rows.find((row) => !row.element.hidden && row.key === this.active);
    attribute(this.element, 'aria-activedescendant', active?.element.id);
  }

  makeRow() {
    const cells = this.shown.map((column) => column.make());
    const element = h('div.row', { role: 'row', id: `${this.id}-${this.rows.length}` },
      cells.map((cell, at) => h(`div.cell${this.shown[at].num ? '.num' : ''}`, { role: 'gridcell', 'data-column': this.shown[at].key }, cell.node)));
    this.body.append(element);
    return { element, cells, key: null, index: -1 };
  }

  fill(row, index) {
    const item = this.items[index];
    row.key = this.key(item);
    row.index = index;
    row.element.hidden = false;
    attribute(row.element, 'aria-rowindex', index + 2);
    attribute(row.element, 'aria-selected', row.key === this.active);
    attribute(row.element, 'data-key', row.key);
    if (this.tree) {
      attribute(row.element, 'aria-level', item.level);
      attribute(row.element, 'aria-expanded', item.open == null ? null : item.open);
    }
    row.element.style.setProperty('--top', `${index * this.rowHeight}px`);
    row.cells.forEach((cell) => cell.set(item));
  }

  activate(index) {
    if (!this.items.length) return;
    const at = Math.max(0, Math.min(this.items.length - 1, index));
    this.active = this.key(this.items[at]);
    const head = this.head.offsetHeight;
    const room = this.element.clientHeight - head;
    const top = at * this.rowHeight;
    if (top < this.element.scrollTop) this.element.scrollTop = top;
    else if (top + this.rowHeight > this.element.scrollTop + room) this.element.scrollTop = top + this.rowHeight - room;
    this.draw();
  }

  keydown(event) {
    if (event.target !== this.element || event.ctrlKey || event.altKey || event.metaKey) return;
    const at = this.index();
    const page = Math.max(1, Math.floor(this.element.clientHeight / this.rowHeight) - 2);
    const item = this.items[at];
    const moves = {
      ArrowDown: at + 1, ArrowUp: at < 0 ? 0 : at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: this.items.length - 1,
    };
    if (event.key in moves) this.activate(moves[event.key]);
    else if ((event.key === 'Enter' || event.key === ' ') && item) this.onOpen?.(item);
    else if (event.key === 'ArrowRight' && item && this.onFold) this.onFold(item, true);
    else if (event.key === 'ArrowLeft' && item && this.onFold) this.onFold(item, false);
    else return;
    event.preventDefault();
  }

  click(event) {
    const element = event.target.closest('.row');
    const row = this.rows.find((own) => own.element === element);
    if (!row) return;
    this.active = row.key;
    this.draw();
    const item = this.items[row.index];
    if (event.target.closest('.twist')) this.onFold?.(item, !item.open);
    else this.onOpen?.(item);
  }
}
