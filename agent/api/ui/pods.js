// Pods and containers live: CPU, waits, memory against requests and limits, probes.

import { attribute, empty, h, level, meter, text } from './dom.js';
import * as f from './format.js';
import { Grid } from './grid.js';

const words = (make, raw) => () => {
  const node = h('span.value', {});
  const set = (item) => {
    const value = make(item);
    text(node, value);
    // Zeros recede, so that the others are seen.
    node.classList.toggle('zero', /^0( |$)/.test(value) || value === f.UNKNOWN);
    if (raw) attribute(node, 'data-value', raw(item));
  };
  return { node, set };
};

const group = (item) => item.group;

/** What both tables have: figures of the cgroup. */
const FIGURES = [
  {
    key: 'cpu', title: 'CPU', least: 64, roomy: 88, grow: 1, worth: 90, num: true, by: (item) => group(item)?.cpu,
    make: figure((item) => f.cores(group(item)?.cpu), (item) => group(item)?.cpu,
      (item) => ({ share: ratio(group(item)?.cpu, item.cpuLimit), at: ratio(item.cpuRequest, item.cpuLimit), of: item.cpuLimit && f.cores(item.cpuLimit) })),
  },
  {
    key: 'wait', title: 'Wait', least: 72, worth: 70, num: true, by: (item) => group(item)?.wait,
    make: words((item) => (group(item) && group(item).wait != null ? f.percent(group(item).wait) : f.UNKNOWN)),
  },
  {
    key: 'throttled', title: 'Throttled', least: 84, worth: 40, num: true, by: (item) => group(item)?.throttledShare,
    make: words((item) => f.percent(group(item)?.throttledShare)),
  },
  {
    key: 'memory', title: 'Memory', least: 84, roomy: 136, grow: 1.4, worth: 95, num: true, by: (item) => group(item)?.memoryBytes,
    make: figure((item) => f.bytes(group(item)?.memoryBytes), (item) => group(item)?.memoryBytes,
      (item) => ({ share: ratio(group(item)?.memoryBytes, item.memoryLimit), at: ratio(item.memoryRequest, item.memoryLimit), of: item.memoryLimit && f.bytes(item.memoryLimit) })),
  },
  { key: 'io', title: 'Disk', least: 88, worth: 30, num: true, by: (item) => sum(group(item)?.readRate, group(item)?.writeRate), make: words((item) => f.rate(sum(group(item)?.readRate, group(item)?.writeRate))) },
  { key: 'net', title: 'Network', least: 88, worth: 28, num: true, by: (item) => sum(group(item)?.rxRate, group(item)?.txRate), make: words((item) => f.rate(sum(group(item)?.rxRate, group(item)?.txRate))) },
  { key: 'threads', title: 'Threads', least: 68, worth: 26, num: true, by: (item) => group(item)?.threads, make: words((item) => f.count(group(item)?.threads)) },
  { key: 'oom', title: 'OOM', least: 52, worth: 50, num: true, by: (item) => group(item)?.kills, make: kills() },
];

const PODS = [
  { key: 'name', title: 'Pod', least: 128, grow: 3, worth: 100, by: (item) => item.title, make: title((item) => [item.namespace, item.name], (item) => item.qos) },
  { key: 'state', title: 'State', least: 112, grow: 1.1, worth: 80, by: (item) => stateOf(item).text, make: state() },
  ...FIGURES.slice(0, 4),
  { key: 'probes', title: 'Probes', least: 72, worth: 45, by: (item) => probesOf(item).filter((own) => own.result === 'failure').length, make: probes() },
  { key: 'restarts', title: 'Restarts', least: 72, worth: 42, num: true, by: (item) => item.restarts, make: words((item) => f.count(item.restarts)) },
  ...FIGURES.slice(4),
];

const CONTAINERS = [
  { key: 'name', title: 'Container', least: 128, grow: 3, worth: 100, by: (item) => item.title, make: title((item) => [item.podTitle, item.name], () => '') },
  PODS[1], ...PODS.slice(2),
];

export class Pods {
  constructor(root, model, { openPod }) {
    Object.assign(this, { root, model });
    this.search = h('input', { type: 'search', placeholder: 'Filter by name, namespace or class', 'aria-label': 'Filter', oninput: () => this.draw() });
    this.total = h('span.quiet', { role: 'status' });
    this.what = 'pods';
    const choose = (what, name) => h('button', { type: 'button', 'aria-pressed': what === 'pods', 'data-what': what, onclick: () => this.choose(what) }, name);
    this.buttons = [choose('pods', 'Pods'), choose('containers', 'Containers')];
    const none = () => (this.search.value ? empty('Nothing matches', 'Clear the filter to see all.') : empty('No pods on this node', 'They appear here as soon as their cgroups exist.'));
    const grid = (label, columns) => new Grid({
      label, columns, key: (item) => item.key ?? item.uid, sort: { column: 'cpu', down: true }, none, onOpen: (item) => openPod(item.item?.uid ?? item.uid), rowHeight: 44,
    });
    this.grids = { pods: grid('Pods', PODS), containers: grid('Containers', CONTAINERS) };
    this.place = h('div.grid-place', {}, this.grids.pods.frame);
    root.append(h('div.tools', {}, h('div.choice', { role: 'group', 'aria-label': 'Rows' }, this.buttons), this.search, this.total), this.place);
  }

  choose(what) {
    this.what = what;
    this.buttons.forEach((button) => attribute(button, 'aria-pressed', button.dataset.what === what));
    this.place.replaceChildren(this.grids[what].frame);
    this.grids[what].fit();
    this.draw();
  }

  focusSearch() {
    this.search.focus();
  }

  draw() {
    const asked = this.search.value.trim().toLowerCase();
    const all = this.what === 'pods' ? this.model.items : this.model.items.flatMap(containers);
    const kept = asked ? all.filter((item) => `${item.title} ${item.qos} ${item.uid}`.toLowerCase().includes(asked)) : all;
    text(this.total, asked ? `${f.count(kept.length)} of ${f.count(all.length)}` : f.plural(all.length, this.what.slice(0, -1)));
    this.grids[this.what].set(kept);
  }
}

export function containers(item) {
  return item.containers.filter(({ own }) => own?.kind !== 'init' || own.state.is !== 'terminated').map(({ own, group: cgroup }) => {
    const name = own?.name || cgroup?.container || cgroup?.id?.slice(0, 12) || '?';
    return {
      key: `${item.uid}/${own?.name ?? cgroup?.id}`, uid: item.uid, item, own, group: cgroup, name, podTitle: item.title, title: `${item.title} ${name}`, qos: item.qos,
      cpuRequest: own?.cpuRequest ?? null, memoryRequest: own?.memoryRequest ?? null, cpuLimit: cgroup?.cpuLimit ?? null, memoryLimit: cgroup?.memoryLimit ?? null, restarts: own?.restarts ?? null,
    };
  });
}

/** In a word what a pod or a container does, and how alarming that is. */
export function stateOf(item) {
  if (item.own) return containerState(item.own);
  const { pod } = item;
  if (!pod) return item.item || item.group ? { text: 'Running', level: '' } : { text: f.UNKNOWN, level: '' };
  if (pod.terminating) return { text: 'Ending', level: 'warn' };
  const waiting = pod.containers.find((own) => own.state.is === 'waiting' && own.state.reason && !['ContainerCreating', 'PodInitializing'].includes(own.state.reason));
  if (pod.phase === 'Failed') return { text: pod.reason || 'Failed', level: 'bad' };
  if (waiting) return { text: waiting.state.reason, level: 'bad' };
  if (pod.phase === 'Running' && !pod.containers.every((own) => own.ready || own.kind === 'init')) return { text: 'Not ready', level: 'warn' };
  return { text: pod.reason || pod.phase, level: pod.phase === 'Pending' ? 'warn' : '' };
}

export function containerState(own) {
  const { state: now } = own;
  if (now.is === 'waiting') return { text: now.reason || 'Waiting', level: /BackOff|Err/.test(now.reason) ? 'bad' : 'warn' };
  if (now.is === 'terminated') return { text: now.reason || `Exit ${now.exitCode}`, level: now.exitCode ? 'bad' : '' };
  if (now.is === 'running') return own.ready ? { text: 'Running', level: '' } : { text: 'Not ready', level: 'warn' };
  return { text: f.UNKNOWN, level: '' };
}

const probesOf = (item) => (item.own ? item.own.probes : (item.pod?.containers ?? []).flatMap((own) => own.probes));
const ratio = (a, b) => (a == null || !b ? null : a / b);
const sum = (a, b) => (a == null && b == null ? null : (a ?? 0) + (b ?? 0));

function figure(make, raw, bar) {
  return () => {
    const [value, of, own] = [h('span.value', {}), h('span.of', {}), meter()];
    const node = h('span.figure-cell', {}, h('span', {}, value, of), own.bar);
    const set = (item) => {
      const { share, at, of: limit } = bar(item);
      text(value, make(item));
      attribute(value, 'data-value', raw(item));
      text(of, limit ? ` / ${limit}` : '');
      own.set(share, at, level(share));
    };
    return { node, set };
  };
}

function title(parts, tag) {
  return () => {
    const [above, name, more] = [h('span.above', {}), h('span.name', {}), h('span.class', {})];
    const set = (item) => {
      const [first, second] = parts(item);
      text(above, first);
      text(name, second);
      text(more, tag(item));
      attribute(name, 'title', second);
    };
    return { node: h('span.title', {}, h('span.line', {}, above, more), name), set };
  };
}

function state() {
  return () => {
    const node = h('span.state', {});
    const set = (item) => {
      const now = stateOf(item);
      text(node, now.text);
      attribute(node, 'title', now.text);
      attribute(node, 'data-level', now.level || null);
    };
    return { node, set };
  };
}

function kills() {
  return () => {
    const node = h('span.value', {});
    const set = (item) => {
      const n = group(item)?.kills;
      text(node, f.count(n));
      node.classList.toggle('zero', !n);
      attribute(node, 'data-level', n > 0 ? 'bad' : null);
      attribute(node, 'data-value', n);
    };
    return { node, set };
  };
}

/** One letter a probe: filled when it succeeds, red when it fails, an outline while there is no result. */
function probes() {
  return () => {
    const node = h('span.probes', {});
    let key = null;
    const set = (item) => {
      const all = probesOf(item).slice(0, 3);
      const now = JSON.stringify(all.map((own) => [own.type, own.result]));
      if (now === key) return;
      key = now;
      node.replaceChildren(...all.map((own) => h('span.probe', { 'data-result': own.result || 'none', title: `${own.type}: ${own.result || 'no result yet'}` },
        own.type[0], h('span.hidden', {}, ` ${own.type} ${own.result || 'no result yet'}`))));
      if (!all.length) node.append(f.UNKNOWN);
    };
    return { node, set };
  };
}
