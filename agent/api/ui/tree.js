// The tree of cgroups, with limits and use. Left and Right fold.

import { attribute, empty, h, level, meter, text } from './dom.js';
import * as f from './format.js';
import { Grid } from './grid.js';

const number = (key, title, width, worth, make) => ({
  key, title, width, least: parseInt(width, 10), worth, num: true,
  make: () => {
    const node = h('span.value', {});
    const set = (item) => {
      const value = make(item.row);
      text(node, value);
      node.classList.toggle('zero', /^0(\.0)?( |$)/.test(value) || value === f.UNKNOWN);
    };
    return { node, set };
  },
});

const COLUMNS = [
  {
    key: 'path', title: 'Cgroup', least: 160, grow: 3, worth: 100,
    make: () => {
      const [twist, name, kind] = [h('span.twist', { 'aria-hidden': 'true' }), h('span.name', {}), h('span.class', {})];
      const node = h('span.branch', {}, twist, name, kind);
      return {
        node,
        set: (item) => {
          node.style.setProperty('--level', item.level - 1);
          text(twist, item.open == null ? '' : item.open ? '▾' : '▸');
          text(name, item.name);
          attribute(name, 'title', item.row.path);
          text(kind, item.note);
        },
      };
    },
  },
  number('cpu', 'CPU', '72px', 90, (row) => f.cores(row.cpu)),
  number('wait', 'Wait', '72px', 60, (row) => (row.wait == null ? f.UNKNOWN : f.percent(row.wait))),
  {
    key: 'memory', title: 'Memory', least: 84, grow: 1, worth: 95, num: true,
    make: () => {
      const [value, of, own] = [h('span.value', {}), h('span.of', {}), meter()];
      return {
        node: h('span.figure-cell', {}, h('span', {}, value, of), own.bar),
        set: ({ row }) => {
          const share = row.memoryLimit ? row.memoryBytes / row.memoryLimit : null;
          text(value, f.bytes(row.memoryBytes));
          attribute(value, 'data-value', row.memoryBytes);
          text(of, row.memoryLimit ? ` / ${f.bytes(row.memoryLimit)}` : '');
          own.set(share, null, level(share));
        },
      };
    },
  },
  number('psi', 'PSI memory', '88px', 40, (row) => (row.psiMemory == null ? f.UNKNOWN : `${row.psiMemory.toFixed(1)} %`)),
  number('threads', 'Threads', '72px', 50, (row) => f.count(row.threads)),
  number('oom', 'OOM', '52px', 45, (row) => f.count(row.kills)),
];

export class Tree {
  constructor(root, model, { openPod }) {
    this.model = model;
    this.folded = new Map();
    this.search = h('input', { type: 'search', placeholder: 'Filter by path or pod', 'aria-label': 'Filter', oninput: () => this.draw() });
    this.total = h('span.quiet', { role: 'status' });
    this.grid = new Grid({
      label: 'Cgroups', columns: COLUMNS, key: (item) => item.row.path, tree: true,
      none: () => empty('No cgroup matches'), onFold: (item, open) => this.fold(item, open),
      onOpen: (item) => (item.row.uid ? openPod(item.row.uid) : this.fold(item, !item.open)),
    });
    const all = (open) => () => {
      this.every = open;
      this.folded.clear();
      this.draw();
    };
    root.append(h('div.tools', {}, h('div.choice', { role: 'group', 'aria-label': 'Levels' },
      h('button', { type: 'button', onclick: all(true) }, 'Unfold all'), h('button', { type: 'button', onclick: all(false) }, 'Fold all')), this.search, this.total), this.grid.frame);
  }

  focusSearch() {
    this.search.focus();
  }

  fold(item, open) {
    if (item.open == null || item.open === open) {
      // To the parent, as in other trees.
      const at = this.grid.items.indexOf(item);
      if (!open) for (let i = at - 1; i >= 0; i--) if (this.grid.items[i].level < item.level) return this.grid.activate(i);
      return;
    }
    this.folded.set(item.row.path, !open);
    this.draw();
  }

  draw() {
    const asked = this.search.value.trim().toLowerCase();
    const rows = [...this.model.groups.values()].sort((a, b) => (a.path < b.path ? -1 : 1));
    const below = new Map();
    for (const row of rows) {
      if (row.path === '/') continue;
      const above = row.path.slice(0, row.path.lastIndexOf('/')) || '/';
      if (!below.has(above)) below.set(above, []);
      below.get(above).push(row);
    }
    const items = [];
    const walk = (row, level) => {
      const children = below.get(row.path) ?? [];
      const open = children.length ? !(this.folded.get(row.path) ?? this.isFolded(level)) : null;
      items.push({ row, level, open, ...named(row) });
      if (open) children.forEach((child) => walk(child, level + 1));
    };
    if (asked) {
      for (const row of rows) {
        const own = named(row);
        if (`${row.path} ${own.name} ${own.note}`.toLowerCase().includes(asked)) items.push({ row, level: 1, open: null, ...own, name: row.path });
      }
    } else if (this.model.root()) walk(this.model.root(), 1);
    text(this.total, f.plural(this.model.groups.size, 'cgroup'));
    this.grid.set(items);
  }

  isFolded(level) {
    return this.every === undefined ? level > 3 : !this.every && level > 1;
  }
}

function named(row) {
  const last = row.path === '/' ? '/' : row.path.slice(row.path.lastIndexOf('/') + 1);
  if (row.kind === 'pod') return { name: row.pod ? `${row.namespace}/${row.pod}` : last, note: `pod, ${row.qos}` };
  if (row.kind === 'container') return { name: row.container || last.slice(0, 24), note: 'container' };
  if (row.kind === 'sandbox') return { name: 'sandbox', note: last.slice(0, 12) };
  return { name: last, note: row.kind === 'other' ? '' : row.kind };
}
